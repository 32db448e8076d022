// Handlers in a folder that holds nothing else: what they can import, under Node and Bun.
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { BUN, Peer, RUNTIMES, TYPES } from './peer.mjs';

/** A folder with these files, gone after the test. */
function folderWith(test, files) {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-alone-'));
  test.after(() => rmSync(folder, { recursive: true }));
  for (const [name, source] of Object.entries(files)) {
    mkdirSync(join(folder, name, '..'), { recursive: true });
    writeFileSync(join(folder, name), source);
  }
  return folder;
}

/**
 * A binary whose `strip FILE` prints the file without its types, and that counts its runs in a file beside it. It is the
 * server's own when FOREBAY_TEST_BIN names that; otherwise Bun's transpiler takes its place and refuses enums as it does.
 */
function stripper(test) {
  const real = process.env.FOREBAY_TEST_BIN;
  const folder = folderWith(test, {
    'forebay': real === undefined ? STAND_IN : `#!/bin/sh\necho "$1" >> "$(dirname "$0")/runs"\nexec '${real}' "$@"\n`,
  });
  const binary = join(folder, 'forebay');
  chmodSync(binary, 0o755);
  return { binary, runs: () => readFileSync(join(folder, 'runs'), 'utf8').split('\n').length - 1 };
}

const STAND_IN = `#!${BUN}
import { appendFileSync, readFileSync } from 'node:fs';
const [command, file] = process.argv.slice(2);
appendFileSync(import.meta.dirname + '/runs', command + '\\n');
const source = readFileSync(file, 'utf8');
const line = source.split('\\n').findIndex((text) => text.startsWith('enum ')) + 1;
if (line > 0) {
  console.error(file + ':' + line + ': enum is not supported; only types that can be erased are');
  process.exit(1);
}
process.stdout.write(new Bun.Transpiler({ loader: 'ts' }).transformSync(source));
`;

const ROUTES = `
const app = router();
app.get('/hello', () => ({ hello: 'world' }));
app.get('/error', () => { throw new HttpError(418); });
`;
const ES = `import { HttpError, router } from 'forebay';\n${ROUTES}export default app;\n`;
const TYPED = `import { HttpError, router, type HttpRequest } from 'forebay';
import { greeting } from './greeting.ts';
const app = router();
app.get('/hello', (request: HttpRequest) => ({ hello: greeting(request.query.get('who') ?? 'world') }));
app.get('/error', (): never => { throw new HttpError(418); });
export default app;
`;
const GREETING = `export function greeting(who: string): string { return who; }\n`;

for (const runtime of RUNTIMES) {
  describe(`a handler alone in a folder, in ${runtime},`, () => {
    async function answers(options) {
      const peer = await Peer.start({ runtime, ...options });
      assert.deepEqual((await peer.fetch({ path: '/hello' })).json(), { hello: 'world' });
      // An HttpError of another copy of the package would be a 500.
      assert.equal((await peer.fetch({ path: '/error' })).status, 418);
      await peer.stop();
      assert.equal(peer.stderr, '');
    }

    for (const [name, source] of [
      ['api.mjs', ES],
      ['api.js', ES],
      ['api.cjs', `const { HttpError, router } = require('forebay');\n${ROUTES}module.exports = app;\n`],
      ['named.cjs', `const { HttpError, router } = require('forebay');\n${ROUTES}exports.handler = app;\n`],
      ['required.mjs', `import { createRequire } from 'node:module';\nconst { HttpError, router } = createRequire(import.meta.url)('forebay');\n${ROUTES}export default app;\n`],
      ['dynamic.mjs', `const { HttpError, router } = await import('forebay');\n${ROUTES}export const handler = app;\n`],
      ['function.mjs', `import { HttpError } from 'forebay';\nexport default ({ path }) => { if (path === '/error') throw new HttpError(418); return { hello: 'world' }; };\n`],
      ['fetch.mjs', `import { HttpError } from 'forebay';\nexport default { async fetch(request, ctx) { if (new URL(request.url).pathname === '/error') throw new HttpError(418); return Response.json({ hello: 'world' }); } };\n`],
      ['testing.mjs', `import { testing } from 'forebay/testing';\n${ES.replace('export default app;', "app.get('/x', () => 1);\nif ((await testing(app).get('/x')).status !== 200) throw new Error('no');\nexport default app;")}`],
    ]) {
      it(`imports forebay: ${name}`, async (test) => {
        // Node takes a .js file without package.json for CommonJS, unless it finds import statements in it (22.7).
        const files = name === 'api.js' ? { 'package.json': '{"type":"module"}' } : {};
        const folder = folderWith(test, { [name]: source, ...files });
        await answers({ handler: join(folder, name), cwd: folder });
      });
    }

    it('is found by paths with spaces and signs', async (test) => {
      const folder = folderWith(test, { 'a b#c%20/äpi.mjs': ES });
      await answers({ handler: join(folder, 'a b#c%20/äpi.mjs') });
    });

    for (const extension of ['ts', 'mts']) {
      it(`may be TypeScript: .${extension}, stripped once and kept`, async (test) => {
        const { binary, runs } = stripper(test);
        const folder = folderWith(test, { [`api.${extension}`]: TYPED, 'greeting.ts': GREETING });
        const cache = folderWith(test, {});
        const options = { handler: join(folder, `api.${extension}`), env: { FOREBAY_BIN: binary, FOREBAY_CACHE_DIR: cache } };
        await answers(options);
        assert.equal(runs(), 2);
        assert.ok(readdirSync(join(cache, 'ts')).every((name) => /^[0-9a-f]{64}\.js$/.test(name)));
        await answers(options);
        assert.equal(runs(), 2);
        writeFileSync(join(folder, 'greeting.ts'), GREETING.replace('return who', 'return who as string'));
        await answers(options);
        assert.equal(runs(), 3);
      });
    }

    it('says file and line when its TypeScript is not only types', async (test) => {
      const { binary } = stripper(test);
      const folder = folderWith(test, { 'api.ts': 'export default () => 1;\nenum Color { Red }\n' });
      const cache = folderWith(test, {});
      const peer = await Peer.start({
        runtime, handler: join(folder, 'api.ts'), ready: false, env: { FOREBAY_BIN: binary, FOREBAY_CACHE_DIR: cache },
      });
      const failed = JSON.parse((await peer.expect(TYPES.FAILED)).payload);
      assert.match(failed.message, /api\.ts:2\b.*enum/s);
      await peer.exited;
    });

    it('does not find what is not installed', async (test) => {
      const folder = folderWith(test, { 'api.mjs': "import 'forebay-nothing';\nexport default () => 1;\n" });
      const peer = await Peer.start({ runtime, handler: join(folder, 'api.mjs'), ready: false });
      const failed = JSON.parse((await peer.expect(TYPES.FAILED)).payload);
      assert.match(failed.message, /forebay-nothing/);
      await peer.exited;
    });
  });
}
