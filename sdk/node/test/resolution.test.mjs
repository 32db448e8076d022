// Handlers in a folder with nothing else in it: what they can import, under Node and Bun.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { LAYOUT, BUN, Peer, RUNTIMES, TYPES } from './peer.mjs';

/** Makes a folder with these files, deleted after the test. */
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
 * Makes a binary whose `strip FILE` prints the file without its types and counts its runs in a file next to it. It wraps the
 * server's binary if FOREBAY_TEST_BIN is set, otherwise Bun's transpiler, which here rejects namespaces as the server does.
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
const line = source.split('\\n').findIndex((text) => text.startsWith('namespace ')) + 1;
if (line > 0) {
  console.error(file + ':' + line + ': a namespace is not supported; only types that can be erased are');
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
    async function answers(test, options) {
      const peer = await Peer.start(test, { runtime, ...options });
      assert.deepEqual((await peer.fetch({ path: '/hello' })).json(), { hello: 'world' });
      // An HttpError of another copy of the package would result in a 500.
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
        // Node treats a .js file without package.json as CommonJS, unless it finds import statements in it (22.7).
        const files = name === 'api.js' ? { 'package.json': '{"type":"module"}' } : {};
        const folder = folderWith(test, { [name]: source, ...files });
        await answers(test, { handler: join(folder, name), cwd: folder });
      });
    }

    it('uses the store that the server names, by all its interfaces', async (test) => {
      const folder = folderWith(test, {
        'store.mjs': `
          import { store, StoreError } from 'forebay';
          import { Store, open } from 'forebay/store';
          import { glsDB } from 'forebay/glsdb';
          import { mglobal, server } from 'forebay/mg-dbx';
          import { Router } from 'forebay/mgweb';
          const router = new Router();
          router.register('mgw-router/glsdb');
          router.get('/hello', (Request, ctx) => {
            const db = new server();
            db.open();
            store.set('Hello', 'a', 1);
            new mglobal(db, 'Hello').set('b', 2);
            new ctx.glsdb.node('Hello').$('c').value = 3;
            const is = [store instanceof Store, open(process.env.FOREBAY_STORE) === store, ctx.glsdb instanceof glsDB];
            try { store.set('Hello'); } catch (error) { is.push(error instanceof StoreError); }
            const { lastCommit } = store.stats();
            return { payload: { hello: is.every(Boolean) ? 'world' : is, stored: store.get('Hello'), lastCommit } };
          });
          export const handler = router.handler();`,
        'make.mjs': `import { open } from ${JSON.stringify(new URL('../dist/store/index.js', import.meta.url).href)};\nopen(process.argv[2]);`,
      });
      const env = { FOREBAY_STORE: join(folder, 'data'), FOREBAY_STORE_MODE: 'rw' };
      execFileSync(process.execPath, [join(folder, 'make.mjs'), env.FOREBAY_STORE]);
      const peer = await Peer.start(test, { runtime, handler: join(folder, 'store.mjs'), env });
      const { lastCommit, ...answer } = (await peer.fetch({ path: '/hello' })).json();
      assert.deepEqual(answer, { hello: 'world', stored: { a: 1, b: 2, c: 3 } });
      // The last commit is reported to the server, which waits for the disk in this worker's place.
      assert.deepEqual([peer.words[LAYOUT.commit_offset / 4], peer.words[LAYOUT.commit_offset / 4 + 1]], [lastCommit, 0]);
      await peer.stop();
      assert.equal(peer.stderr, '');
    });

    it('is found by paths with spaces and signs', async (test) => {
      const folder = folderWith(test, { 'a b#c%20/äpi.mjs': ES });
      await answers(test, { handler: join(folder, 'a b#c%20/äpi.mjs') });
    });

    for (const extension of ['ts', 'mts']) {
      it(`may be TypeScript: .${extension}, stripped once and kept`, async (test) => {
        const { binary, runs } = stripper(test);
        const folder = folderWith(test, { [`api.${extension}`]: TYPED, 'greeting.ts': GREETING });
        const cache = folderWith(test, {});
        const options = { handler: join(folder, `api.${extension}`), env: { FOREBAY_BIN: binary, FOREBAY_CACHE_DIR: cache } };
        await answers(test, options);
        assert.equal(runs(), 2);
        assert.ok(readdirSync(join(cache, 'ts')).every((name) => /^[0-9a-f]{64}\.js$/.test(name)));
        await answers(test, options);
        assert.equal(runs(), 2);
        writeFileSync(join(folder, 'greeting.ts'), GREETING.replace('return who', 'return who as string'));
        await answers(test, options);
        assert.equal(runs(), 3);
      });
    }

    it('says file and line when its TypeScript is not only types', async (test) => {
      const { binary } = stripper(test);
      const folder = folderWith(test, { 'api.ts': 'export default () => 1;\nnamespace Color { export const red = 1 }\n' });
      const cache = folderWith(test, {});
      const peer = await Peer.start(test, {
        runtime, handler: join(folder, 'api.ts'), ready: false, env: { FOREBAY_BIN: binary, FOREBAY_CACHE_DIR: cache },
      });
      const failed = JSON.parse((await peer.expect(TYPES.FAILED)).payload);
      assert.match(failed.message, /api\.ts:2\b.*namespace/s);
      await peer.exited;
    });

    it('does not find what is not installed', async (test) => {
      const folder = folderWith(test, { 'api.mjs': "import 'forebay-nothing';\nexport default () => 1;\n" });
      const peer = await Peer.start(test, { runtime, handler: join(folder, 'api.mjs'), ready: false });
      const failed = JSON.parse((await peer.expect(TYPES.FAILED)).payload);
      assert.match(failed.message, /forebay-nothing/);
      await peer.exited;
    });
  });
}
