// Adds to dist what is not compiled: node libraries.mjs
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';

// For each module that it loads, Node parses the nearest package.json: the package's has all its exports.
writeFileSync('dist/package.json', '{ "type": "module" }\n');

// The libraries that functions of decisions can import, each behind its licence.
const to = 'dist/rules/libraries';
mkdirSync(to, { recursive: true });
for (const [name, file] of [['dayjs', 'dayjs.min.js'], ['big.js', 'big.js'], ['zod', 'lib/index.umd.js']]) {
  const folder = `node_modules/${name}`;
  const { version } = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  const licence = readdirSync(folder).find((file) => /^licen[cs]e/i.test(file));
  const text = readFileSync(`${folder}/${file}`, 'utf8').replace(/^\/\/# sourceMappingURL=.*$/m, '');
  writeFileSync(`${to}/${name.replace(/\.js$/, '')}.js`, `/*\n${name} ${version}\n\n${readFileSync(`${folder}/${licence}`, 'utf8').trim()}\n*/\n${text}`);
}
