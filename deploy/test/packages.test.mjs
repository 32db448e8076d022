// Makes the packages of a built binary, and installs each as a stranger would: in an empty folder, without a registry and without this repository.

import assert from 'node:assert/strict';
import { execFile, spawn, spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const DEPLOY = join(dirname(fileURLToPath(import.meta.url)), '..');
const BINARY = process.env.FOREBAY_BINARY ?? join(DEPLOY, '../target/debug/forebay');
const VERSION = JSON.parse(readFileSync(join(DEPLOY, '../sdk/node/package.json'))).version;
const home = mkdtempSync(join(tmpdir(), 'forebay-install-'));
const packages = join(home, 'packages');
/** What somebody has who knows nothing of this repository. */
const env = { PATH: `${dirname(process.execPath)}:${process.env.PATH}`, HOME: home, LANG: 'C.UTF-8', npm_config_registry: 'http://127.0.0.1:9', npm_config_fetch_retries: '0' };
after(() => rmSync(home, { recursive: true, force: true }));

const run = async (program, args, options = {}) => (await promisify(execFile)(program, args, { cwd: home, env, ...options })).stdout;
const folder = (name) => {
  mkdirSync(join(home, name));
  return join(home, name);
};
const packageEnding = (ending) => {
  const [found, ...more] = readdirSync(packages).filter((file) => `/${file}`.endsWith(ending));
  assert.ok(found && more.length === 0, `one package ends with ${ending}: ${readdirSync(packages)}`);
  return join(packages, found);
};

/** Starts `forebay serve`, asks it for a path, and stops it. */
const ask = async (forebay, path, { cwd, args = [], variables = {} }) => {
  const server = spawn(forebay, ['serve', '--listen', '127.0.0.1:0', '--admin', 'off', ...args], { cwd, env: { ...env, ...variables }, stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => server.on('close', resolve));
  let printed = '';
  server.stderr.on('data', (text) => (printed += text));
  try {
    const address = await new Promise((resolve) => {
      createInterface(server.stdout).on('line', (line) => resolve(/listening on (\S+)/.exec(line)?.[1]));
      ended.then(() => resolve());
    });
    assert.ok(address, `the server does not listen:\n${printed}`);
    return await (await fetch(`${address}${path}`)).text();
  } finally {
    server.kill();
    assert.equal(await ended, 0, printed);
  }
};

/** The first steps of README.md. */
const serveNewApplication = async (forebay, cwd) => {
  await run(forebay, ['new', 'app'], { cwd });
  assert.equal(await ask(forebay, '/hello/ada', { cwd: join(cwd, 'app') }), '{"hello":"ada"}');
};

/** Makes the packages with a umask, in another process, so that two runs share the cores. */
const makePackages = (to, umask) =>
  run('sh', ['-c', `umask ${umask} && exec "$0" "$@"`, process.execPath, join(DEPLOY, 'packages.mjs'), BINARY, to, '--fast'], {
    env: { ...process.env, SOURCE_DATE_EPOCH: '1700000000' },
  });

let secondBuild;
before(async () => {
  secondBuild = makePackages(join(home, 'again'), '077');
  secondBuild.catch(() => {});
  await makePackages(packages, '022');
});

test('the archive has a binary that serves a new application, and what belongs to it', async () => {
  const cwd = folder('archive');
  await run('tar', ['--extract', '--strip-components=1', `--file=${packageEnding('linux-x64.tar.gz')}`], { cwd });
  await serveNewApplication(join(cwd, 'forebay'), cwd);
  await run('bash', ['-n', 'completions/forebay.bash'], { cwd });
  assert.equal(await ask('./forebay', '/', { cwd, variables: { DATA: cwd, APP: cwd, ADMIN: '127.0.0.1:0' } }), 'Forebay is installed. Its configuration is /etc/forebay/forebay.toml.\n');
  assert.ok(JSON.parse(readFileSync(join(cwd, 'forebay.schema.json'))).properties.route);
  for (const file of ['LICENSE', 'LICENSES-OTHERS', 'README.md']) assert.ok(readFileSync(join(cwd, file)).length > 0, file);
});

test('the documentation in the archive has everything that its first pages lead to', async () => {
  const cwd = folder('documentation');
  await run('tar', ['--extract', '--strip-components=1', `--file=${packageEnding('linux-x64.tar.gz')}`], { cwd });
  const pages = ['README.md', 'docs/README.md', ...globSync('{docs/{tutorial,guide,operating},examples/*}/*.md', { cwd })];
  assert.ok(pages.length > 40, `${pages.length} pages`);
  for (const page of pages) {
    const links = [...readFileSync(join(cwd, page), 'utf8').matchAll(/\]\(([^)#\s:]+)(?:#[^)]*)?\)/g)];
    assert.deepEqual(links.map(([, link]) => link).filter((link) => !existsSync(join(cwd, dirname(page), link))), [], page);
  }
});

test('the npm packages bring the command, the SDK and its native part, without a registry', async () => {
  const cwd = folder('npm');
  await run('npm', ['install', '--offline', packageEnding(`/forebay-${VERSION}.tgz`), packageEnding(`/forebay-linux-x64-${VERSION}.tgz`)], { cwd });
  assert.match(await run('npx', ['--no', 'forebay', 'version'], { cwd }), new RegExp(`^forebay ${VERSION}`));
  await serveNewApplication(join(cwd, 'node_modules/.bin/forebay'), cwd);
  const program = "import { router } from 'forebay'; import { open } from 'forebay/store'; const s = open('store'); s.set('Person', 7, { name: 'Ada' }); console.log(typeof router, s.get('Person', 7).name)";
  assert.equal(await run('node', ['--input-type=module', '--eval', program], { cwd }), 'function Ada\n');
});

test('the tutorial for the first five minutes works with the packages alone', async () => {
  const cwd = folder('five-minutes');
  await run('tar', ['--extract', '--strip-components=1', `--file=${packageEnding('linux-x64.tar.gz')}`], { cwd });
  const tutorials = join(DEPLOY, '../docs/test/tutorials.test.mjs');
  await run(process.execPath, ['--test', '--test-name-pattern=five-minutes', tutorials], { cwd, env: { ...env, FOREBAY_BINARY: join(cwd, 'forebay'), FOREBAY_PACKAGES: packages } });
});

test('without the package of its platform, the command of npm and the store say which one to install', async () => {
  const cwd = folder('npm-alone');
  await run('npm', ['install', '--no-audit', '--no-fund', '--omit=optional', packageEnding(`/forebay-${VERSION}.tgz`)], { cwd });
  const { status, stderr } = spawnSync(join(cwd, 'node_modules/.bin/forebay'), ['new', 'app'], { cwd, env, encoding: 'utf8' });
  assert.equal(status, 1);
  const message = /the package @forebay\/linux-x64 is not installed.+npm install @forebay\/linux-x64@\d/;
  assert.match(stderr, message);
  const { stderr: ofStore } = spawnSync('node', ['--input-type=module', '--eval', "import { open } from 'forebay/store'; open('store')"], { cwd, env, encoding: 'utf8' });
  assert.match(ofStore, message);
});

test('the wheel brings the command, the package and its native part, without an index', async () => {
  const cwd = folder('wheel');
  const python = process.env.PYTHON ?? 'python3';
  const hasPip = spawnSync(python, ['-m', 'pip', '--version'], { env }).status === 0;
  await run(python, ['-m', 'venv', ...(hasPip ? ['--without-pip'] : []), 'venv'], { cwd });
  const pip = hasPip ? [python, '-m', 'pip', '--python', 'venv/bin/python'] : ['venv/bin/python', '-m', 'pip'];
  await run(pip[0], [...pip.slice(1), 'install', '--quiet', '--no-index', '--no-compile', '--disable-pip-version-check', packageEnding('.whl')], { cwd });
  const forebay = join(cwd, 'venv/bin/forebay');
  await serveNewApplication(forebay, cwd);
  writeFileSync(join(cwd, 'api.py'), 'from forebay import App\napp = App()\n@app.get("/hello/:name")\ndef hello(request):\n    return {"python": request.params["name"]}\n');
  assert.equal(await ask(forebay, '/hello/ada', { cwd, args: ['api.py'], variables: { PATH: `${cwd}/venv/bin:${env.PATH}` } }), '{"python":"ada"}');
  const program = 'from forebay.store import open_store; s = open_store("store"); s.set("Person", 7, {"name": "Ada"}); print(s.get("Person", 7)["name"])';
  assert.equal(await run('venv/bin/python', ['-c', program], { cwd }), 'Ada\n');
});

test('the Debian package has a binary, a hardened unit, and a configuration that serves with it', async () => {
  const root = folder('debian');
  const deb = packageEnding('_amd64.deb');
  await run('dpkg-deb', ['--extract', deb, root]);
  await run('dpkg-deb', ['--control', deb, join(root, 'DEBIAN')]);
  assert.equal(readFileSync(join(root, 'DEBIAN/conffiles'), 'utf8'), '/etc/forebay/forebay.toml\n');
  await run('md5sum', ['--check', '--strict', '--quiet', 'DEBIAN/md5sums'], { cwd: root });
  for (const script of ['postinst', 'prerm']) await run('sh', ['-n', join(root, 'DEBIAN', script)]);
  assert.deepEqual((await run('dpkg-deb', ['--contents', deb])).match(/^\S+ (?!root\/root).*/gm), null);

  const forebay = join(root, 'usr/bin/forebay');
  await serveNewApplication(forebay, root);
  const unit = readFileSync(join(root, 'usr/lib/systemd/system/forebay.service'), 'utf8');
  assert.match(unit, /^ExecStart=\/usr\/bin\/forebay serve -c \/etc\/forebay\/forebay.toml$/m);
  assert.match(unit, /^User=forebay$/m);
  const variables = Object.fromEntries(/^Environment=(.+)$/m.exec(unit)[1].split(' ').map((one) => one.split('=')));
  const configuration = join(root, 'etc/forebay/forebay.toml');
  assert.match(await ask(forebay, '/', { cwd: root, args: ['-c', configuration], variables: { ...variables, DATA: root } }), /^Forebay is installed/);

  if (spawnSync('systemd-analyze', ['--version']).error) return;
  const units = folder('units');
  writeFileSync(join(units, 'forebay.service'), unit.replace('/usr/bin/forebay', forebay));
  writeFileSync(join(units, 'forebay.socket'), readFileSync(join(root, 'usr/lib/systemd/system/forebay.socket')));
  await run('systemd-analyze', ['verify', '--recursive-errors=no', 'forebay.service', 'forebay.socket'], { cwd: units });
  await run('systemd-analyze', ['security', '--offline=true', '--threshold=20', join(units, 'forebay.service')], { cwd: units });
});

test('the extension for VS Code is whole: its manifests name only files that are in it, and it loads', async () => {
  const cwd = folder('vsix');
  await run('python3', ['-m', 'zipfile', '--extract', packageEnding('.vsix'), cwd]);
  const extension = join(cwd, 'extension');
  const manifest = readFileSync(join(cwd, 'extension.vsixmanifest'), 'utf8');
  const { version, main, devDependencies, contributes } = JSON.parse(readFileSync(join(extension, 'package.json')));
  assert.deepEqual([version, devDependencies], [VERSION, undefined]);
  const paths = [...manifest.matchAll(/Path="(.+?)"/g)].map(([, path]) => join(cwd, path));
  for (const { path, configuration } of [...contributes.grammars, ...contributes.snippets, ...contributes.languages]) paths.push(join(extension, path ?? configuration));
  for (const path of [...paths, join(extension, main)]) assert.ok(readFileSync(path).length > 0, path);
  const types = readFileSync(join(cwd, '[Content_Types].xml'), 'utf8');
  for (const file of [...readdirSync(extension), 'extension.vsixmanifest']) assert.ok(types.includes(`".${file.split('.').pop()}"`) || types.includes(`"/extension/${file}"`), file);
  // VS Code itself is not there: whatever the extension asks of it is an empty object.
  const program = "const load = require('node:module'); const real = load._load; load._load = (name, ...rest) => (name === 'vscode' ? {} : real(name, ...rest)); require('./extension.js'); import('./graph.mjs').then(({ layout }) => console.log(layout({ nodes: [], edges: [] }).nodes.length))";
  assert.equal(await run('node', ['--eval', program], { cwd: extension }), '0\n');
});

test('the list of components names what is inside, with licences, and not what only tests use', () => {
  const { components } = JSON.parse(readFileSync(packageEnding('.cdx.json'), 'utf8'));
  const names = components.map(({ name }) => name);
  for (const name of ['tokio', 'rquickjs-core', 'signet-mdbx-sys', 'dayjs', 'preact', 'uplot']) assert.ok(names.includes(name), name);
  for (const name of ['proptest', 'forebay-testkit', 'syn']) assert.ok(!names.includes(name), name);
  for (const { name, licenses, purl } of components) assert.ok(licenses[0].expression && purl, name);
});

test('the guide names every package', () => {
  const tag = /manylinux_2_\d+/;
  const guide = readFileSync(join(DEPLOY, '../docs/guide/install.md'), 'utf8').replace(tag, 'manylinux');
  for (const file of readdirSync(packages)) assert.ok(guide.includes(`\`${file.replace(tag, 'manylinux')}\``), file);
});

test('the same input gives the same bytes', async () => {
  await secondBuild;
  assert.equal(readFileSync(join(home, 'again/SHA256SUMS'), 'utf8'), readFileSync(join(packages, 'SHA256SUMS'), 'utf8'));
});
