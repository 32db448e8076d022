// The documentation as a website: `make docs` writes it to target/docs. Its pages are the Markdown files of the repository, where their links work, too.

import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { dirname, join, posix, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitepress';

const HERE = dirname(fileURLToPath(import.meta.url));
const ROOT = join(HERE, '../..');
const SOURCES = 'https://github.com/forebay/forebay/blob/main/';

/** Pages in the order of the sidebar. A name without a folder is in the folder of its group; those after `...` come by name. */
const GROUPS = [
  { text: 'Start', folder: '.', pages: ['README.md', 'docs/guide/install.md', 'docs/tutorial/five-minutes.md', 'docs/guide/internet.md', 'docs/guide/choose.md', 'docs/guide/editor.md', 'examples/showcase/README.md', 'CHANGELOG.md'] },
  { text: 'Tutorials', folder: 'docs/tutorial', pages: ['pool.md', 'applications.md', 'store.md', 'records.md', 'sql.md', 'rules.md'] },
  { text: 'Applications', folder: 'examples', pages: ['shop/README.md', 'api/README.md', 'decisions/README.md'] },
  {
    text: 'Handlers',
    folder: 'docs/guide',
    pages: ['pools.md', 'applications.md', '../../sdk/node/README.md', 'python.md', '../../sdk/python/README.md', 'scripts.md', 'stdio.md', 'live.md', 'jobs.md', 'pool-library.md'],
  },
  { text: 'Moving here', folder: 'docs/guide', pages: ['from-gunicorn.md', 'from-pm2.md', 'from-nginx-unit.md', 'from-light-4j.md', 'from-mg-web.md', 'from-qoper8.md', 'from-rengine.md', 'from-wabur.md'], collapsed: true },
  { text: 'Data', folder: 'docs/guide', pages: ['tree.md', 'store.md', 'records.md', 'records-site.md', 'sql.md', 'async-or-blocking.md'] },
  { text: 'Rules', folder: 'docs/guide', pages: ['workflows.md', 'workflow-releases.md', '../../examples/workflows/README.md'] },
  { text: 'The front', folder: 'docs/guide', pages: ['authentication.md', 'policies.md', 'openapi.md', 'proxy.md', 'confinement.md', 'cluster.md'] },
  { text: 'Performance', folder: 'docs/guide', pages: ['explain.md', 'load.md', 'bench-pool.md', '../measurements.md', '../../bench/README.md'] },
  { text: 'Operating', folder: 'docs/operating', pages: ['../guide/console.md', 'deploy.md', 'tls.md', 'reload.md', 'log.md', 'telemetry.md', 'scale.md', '../../SECURITY.md', 'security.md', 'asvs.md'] },
  { text: 'Reference', folder: 'docs/reference', pages: ['configuration.md', 'cli.md', 'routing.md', 'javascript.md', 'python.md', 'tql.md', 'admin.md', 'metrics.md', '...'] },
  { text: 'Internals', folder: '.', pages: ['ARCHITECTURE.md', 'docs/internals/store.md', 'protocol/PROTOCOL.md', 'fuzz/README.md'] },
  { text: 'Decisions', folder: 'docs/decisions', pages: ['...'], collapsed: true },
];

const markdown = (folder) => readdirSync(join(ROOT, folder)).filter((file) => file.endsWith('.md')).sort();

const files = ({ folder, pages }) => {
  const named = pages.filter((page) => page !== '...').map((page) => posix.join(folder, page));
  if (!pages.includes('...')) return named;
  return [...named, ...markdown(folder).map((file) => posix.join(folder, file)).filter((file) => !named.includes(file))];
};

const title = (file) => /^# (.+)$/m.exec(readFileSync(join(ROOT, file), 'utf8'))[1].replaceAll('`', '');

/** The address of a page: README.md of the repository is the first one. */
const address = (file) =>
  file === 'docs/README.md' ? 'contents.md' : file.replace(/^docs\//, '').replace(/README\.md$/, 'index.md');

const listed = GROUPS.flatMap(files);
for (const folder of ['docs/tutorial', 'docs/guide', 'docs/operating', 'docs/reference']) {
  for (const file of markdown(folder)) {
    if (!listed.includes(posix.join(folder, file))) throw new Error(`${folder}/${file} is in no group of docs/.vitepress/config.mjs`);
  }
}

/** Names of sections as the repository's host makes them, so that links work there and here. */
const slugify = (text) => text.toLowerCase().replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');

/** Two braces are text, not an expression. */
const keepBraces = (md) => {
  for (const kind of ['text', 'code_inline']) {
    const render = md.renderer.rules[kind];
    md.renderer.rules[kind] = (...token) => render(...token).replaceAll('{{', '&#123;&#123;');
  }
};

/** Links lead from file to file. Those to pages become their addresses, others lead to the repository; all must lead somewhere. */
const resolveLinks = (md) => {
  md.core.ruler.push('links', ({ tokens, env }) => {
    const from = relative(ROOT, dirname(env.realPath ?? env.path));
    for (const token of tokens.flatMap((token) => token.children ?? [])) {
      const href = token.type === 'link_open' && token.attrGet('href');
      if (!href || /^([a-z]+:|#|\/)/.test(href)) continue;
      const [path, section] = href.split('#');
      const file = posix.join(from, decodeURI(path));
      if (!existsSync(join(ROOT, file))) throw new Error(`${env.relativePath}: ${href} leads nowhere`);
      const target = path.endsWith('.md') ? `/${address(file)}` : SOURCES + file;
      token.attrSet('href', section ? `${target}#${section}` : target);
    }
  });
};

/** A link to a section that a page does not have ends the build. */
const checkSections = ({ outDir, pages }) => {
  const html = new Map(pages.map((page) => [`/${address(page).replace(/(index)?\.md$/, '')}`, readFileSync(join(outDir, address(page).replace(/md$/, 'html')), 'utf8')]));
  for (const [from, text] of html) {
    for (const [, path, section] of text.matchAll(/href="(\/[^"#]*|)#([^"]+)"/g)) {
      const target = html.get(path || from);
      if (target && !target.includes(`id="${decodeURIComponent(section)}"`)) throw new Error(`${from}: ${path} has no section #${section}`);
    }
  }
};

export default defineConfig({
  title: 'Forebay',
  description: 'An HTTP application server in one binary, and what each way of answering costs',
  srcDir: '..',
  outDir: '../target/docs',
  cacheDir: '../target/docs-cache',
  srcExclude: ['**/node_modules/**', 'target/**', '**/.venv/**', 'crates/**', 'fuzz/corpus/**', 'examples/**/data/**'],
  rewrites: (file) => address(file),
  cleanUrls: true,
  lastUpdated: false,
  // Pages outside this folder do not find its packages.
  vite: {
    resolve: { alias: ['vue/server-renderer', 'vue'].map((find) => ({ find, replacement: join(HERE, '../node_modules', find) })) },
    build: { chunkSizeWarningLimit: 4_000 },
  },
  markdown: {
    anchor: { slugify },
    config: (md) => {
      resolveLinks(md);
      keepBraces(md);
    },
  },
  buildEnd: checkSections,
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    sidebar: GROUPS.map((group) => ({
      text: group.text,
      collapsed: group.collapsed,
      items: files(group).map((file) => ({ text: title(file), link: `/${address(file).replace(/(index)?\.md$/, '')}` })),
    })),
  },
});
