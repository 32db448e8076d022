// Transactions that a handler does not end, in a worker of Node and of Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open } from '../dist/store/index.js';
import { Peer, RUNTIMES, until } from './peer.mjs';
import { freshFolder } from './stores.mjs';

const HANDLER = fileURLToPath(new URL('handlers/open-transactions.mjs', import.meta.url));

for (const runtime of RUNTIMES) {
  describe(`a transaction that a handler leaves open in ${runtime}`, () => {
    async function worker(test, concurrency) {
      const folder = freshFolder();
      const store = open(folder, { durability: 'relaxed' });
      const peer = await Peer.start(test, { runtime, handler: HANDLER, concurrency, env: { FOREBAY_STORE: folder } });
      return { peer, store };
    }
    const warned = (peer, path) =>
      until(() => peer.logs.some(({ level, message }) => level === 'warn' && message === `the handler of GET ${path} left a transaction open, which was rolled back`));

    for (const path of ['/returns', '/settles']) {
      it(`is rolled back when ${path.slice(1) === 'returns' ? 'it returns' : 'its promise settles'}, and the request fails`, async (test) => {
        const { peer, store } = await worker(test, 1);
        const answer = await peer.fetch({ path });
        assert.equal(answer.status, 500);
        assert.equal(answer.fault, true);
        assert.equal(answer.json().detail, 'the handler left a transaction open, which was rolled back');
        await warned(peer, path);
        // Other processes can write again.
        store.set('Other', 1);
        assert.deepEqual((await peer.fetch({ path: '/kept' })).json(), { level: '0', left: '0', kept: '' });
        await peer.stop();
        store.close();
      });
    }

    it('is rolled back when it throws or its stream ends, and the answer stays what it is', async (test) => {
      const { peer, store } = await worker(test, 1);
      const failed = await peer.fetch({ path: '/throws' });
      assert.equal(failed.json().detail, 'the handler failed');
      await warned(peer, '/throws');
      assert.equal((await peer.fetch({ path: '/streams' })).text, 'ab');
      await warned(peer, '/streams');
      store.set('Other', 1);
      assert.equal((await peer.fetch({ path: '/kept' })).json().left, '0');
      await peer.stop();
      store.close();
    });

    it('is rolled back when it began after another request had been answered', async (test) => {
      const { peer, store } = await worker(test, 2);
      const [late, level] = await Promise.all([peer.fetch({ path: '/late' }), peer.fetch({ path: '/level' })]);
      assert.deepEqual([late.status, level.status], [500, 200]);
      await warned(peer, '/late');
      store.set('Other', 1);
      await peer.stop();
      store.close();
    });

    it('is none that ended inside another one', async (test) => {
      const { peer, store } = await worker(test, 1);
      assert.equal((await peer.fetch({ path: '/nests' })).status, 200);
      assert.equal(store.get('Left', 'nests'), 1);
      await peer.stop();
      store.close();
    });

    it('is kept over an await, whoever is answered meanwhile', async (test) => {
      const { peer, store } = await worker(test, 2);
      assert.equal((await peer.fetch({ path: '/commits' })).json().done, '0');
      const [awaits, level] = await Promise.all([peer.fetch({ path: '/awaits' }), peer.fetch({ path: '/level' })]);
      assert.deepEqual([awaits.status, awaits.json().done, level.status, level.json().level], [200, '0', 200, '1']);
      assert.deepEqual((await peer.fetch({ path: '/kept' })).json(), { level: '0', left: '0', kept: 'awaitscommits' });
      assert.deepEqual(peer.logs, []);
      await peer.stop();
      store.close();
    });
  });
}
