// Makes docs/reference/javascript.md of the declarations in `dist`. It reads them line by line, in the form in which tsc writes them.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const MODULES = { forebay: 'index', 'forebay/store': 'store/index', 'forebay/records': 'records/index', 'forebay/sql': 'sql/index', 'forebay/node-http': 'node-http/index', 'forebay/testing': 'testing' };
const DECLARATION = /^export (?:declare )?(class|interface|type|function|const) (\w+)/;
const files = new Map();

/** The page as Markdown. */
export function reference() {
  const modules = Object.entries(MODULES).map(([name, file]) => ({ name, doc: parse(url(file)).doc, found: exportsOf(url(file)) }));
  // Of several modules that export something, the last one describes it.
  const owners = new Map(modules.flatMap(({ name, found }) => found.map((declaration) => [declaration, name])));
  const sections = modules.map(({ name, doc, found }) => {
    const own = found.filter((declaration) => owners.get(declaration) === name);
    const others = Object.groupBy(found.filter((declaration) => !own.includes(declaration)), (declaration) => owners.get(declaration));
    const also = Object.entries(others).map(([owner, list]) => {
      const names = list.map((declaration) => `\`${declaration.name}\``).join(', ');
      return `It also exports ${names} of [\`${owner}\`](#${owner.replace('/', '')}).`;
    });
    return [`## \`${name}\``, doc, ...also, ...own.map(described)].join('\n\n');
  });
  const about = `What the npm package \`forebay\` exports for handlers and their tests, made from its declarations; [its README](../../sdk/node/README.md) shows how to use it.`;
  return `# JavaScript and TypeScript\n\n<!-- Made from sdk/node/dist. To refresh: FOREBAY_REFRESH=1 node --test sdk/node/test/package.test.mjs -->\n\n${about}\n\n${sections.join('\n\n')}\n`;
}

const url = (file) => new URL(`dist/${file}.d.ts`, import.meta.url);

/** What a file exports, in order, resolved to the declarations. */
function exportsOf(file) {
  const { exported, declarations } = parse(file);
  return exported.flatMap(({ name, from }) => {
    if (from === undefined) return [declarations.get(name)];
    return exportsOf(new URL(from.replace(/js$/, 'd.ts'), file)).filter((declaration) => declaration.name === name);
  });
}

function parse(file) {
  if (files.has(file.href)) return files.get(file.href);
  const parsed = { doc: '', declarations: new Map(), exported: [] };
  files.set(file.href, parsed);
  for (const { doc, lines } of statements(readFileSync(fileURLToPath(file), 'utf8').split('\n'))) {
    if (doc.includes('@module')) parsed.doc = prose(doc);
    const [, names, from] = /^export (?:type )?\{(.*)\} from '(.*)';/.exec(lines[0]) ?? [];
    for (const name of names?.matchAll(/(\w+)\s*(?:,|$)/g) ?? []) parsed.exported.push({ name: name[1], from });
    const [, kind, name] = DECLARATION.exec(lines[0]) ?? [];
    if (name === undefined) continue;
    parsed.exported.push({ name });
    parsed.declarations.set(name, { name, kind, doc: doc.includes('@module') ? '' : prose(doc), lines });
  }
  return parsed;
}

/** Splits lines into statements or members, each with the comment before it. */
function* statements(lines) {
  let doc = '';
  for (let at = 0; at < lines.length; at++) {
    const first = at;
    if (lines[at].startsWith('/**')) {
      while (!lines[at].endsWith('*/')) at++;
      doc += lines.slice(first, at + 1).join('\n');
    } else if (lines[at] !== '') {
      if (lines[at].endsWith('{')) while (!/^\}.*[;}]$|^\}$/.test(lines[++at]));
      else if (!lines[at].endsWith(';')) while (!lines[++at].endsWith(';'));
      yield { doc, lines: lines.slice(first, at + 1) };
      doc = '';
    }
  }
}

function described({ name, kind, doc, lines }) {
  const signature = (text) => text.replace(/^export (declare )?/, '');
  const hasMembers = kind === 'class' || kind === 'interface';
  const code = hasMembers ? signature(lines[0]).replace(/ \{\}?$/, '') : signature(lines.join('\n'));
  const members = hasMembers ? [...statements(lines.slice(1, -1).map((line) => line.replace(/^ {4}/, '')))] : [];
  const list = members.filter((member) => member.lines[0] !== '#private;').map((member) => {
    const text = member.lines.map((line) => line.trim()).join(' ').replace(/;$/, '');
    return `- \`${text}\`${member.doc === '' ? '' : `\n\n${prose(member.doc)}`.replaceAll(/\n(?=.)/g, '\n  ')}`;
  });
  return [`### ${name}`, doc, `\`\`\`ts\n${code}\n\`\`\``, list.join('\n')].filter((part) => part !== '').join('\n\n');
}

/** The text of a comment as Markdown. */
function prose(comment) {
  return comment
    .replaceAll(/^\/\*\*[ \n]?|\s*\*\/$|^\s*\* ?/gm, '')
    .replaceAll(/\{@link (\S+?)\}/g, '`$1`')
    .replaceAll('@module', '')
    .replaceAll(/(?<=\S) @throws /g, ' Throws ')
    .replaceAll(/^@returns /gm, '\nReturns ')
    .replaceAll(/^@throws /gm, '\nThrows ')
    .replaceAll(/^@param (\S+) /gm, '\n`$1`: ')
    .replaceAll(/\n{3,}/g, '\n\n')
    .trim();
}
