// Transactions that are committed with the response, in a worker of Node and of Bun.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open } from '../dist/store/index.js';
import { LAYOUT, Peer, RUNTIMES } from './peer.mjs';
import { freshFolder } from './stores.mjs';

const HANDLER = fileURLToPath(new URL('handlers/shared-commits.mjs', import.meta.url));

for (const runtime of RUNTIMES) {
  describe(`a transaction that is committed with the answer in ${runtime}`, () => {
    async function worker(test) {
      const folder = freshFolder();
      const store = open(folder);
      const peer = await Peer.start(test, { runtime, handler: HANDLER, windowBytes: 4_194_304, env: { FOREBAY_STORE: folder, OTHER_STORE: freshFolder() } });
      return { folder, peer, store };
    }
    /** Sends requests so that the worker reads all of them at once. */
    function fetchAll(peer, paths) {
      peer.link.cork();
      const answers = paths.map((path) => peer.fetch({ path }));
      peer.link.uncork();
      return Promise.all(answers);
    }

    it('is seen by its process at once, and by others before the answer', async (test) => {
      const { peer, store } = await worker(test);
      assert.deepEqual((await peer.fetch({ path: '/twice' })).json(), { sums: [1, 2], own: 2, made: 0 });
      assert.equal(store.get('Sum'), 2);
      await peer.stop();
      store.close();
    });

    it('shares its commit with those of other requests', async (test) => {
      const { peer, store } = await worker(test);
      const paths = new Array(8).fill('/add');
      // On a busy machine, each handler may exceed the millisecond after which no other may join its commit, so it tries again.
      const end = Date.now() + 10_000;
      for (let sums = 0, made = paths.length; made === paths.length; sums += paths.length) {
        assert.ok(Date.now() < end, 'every request had a commit of its own');
        const before = store.stats().lastCommit;
        const answers = await fetchAll(peer, paths);
        assert.deepEqual(answers.map((answer) => answer.json().sum), paths.map((_, index) => sums + index + 1));
        made = store.stats().lastCommit - before;
      }
      await peer.stop();
      store.close();
    });

    it('has the server wait for the disk unless all that share its commit are relaxed', async (test) => {
      const { peer, store } = await worker(test);
      const told = () => Number(peer.memory.readBigUInt64LE(LAYOUT.commit_offset));
      assert.deepEqual((await peer.fetch({ path: '/relaxed' })).json(), { sum: 1 });
      assert.deepEqual([store.get('Sum'), told()], [1, 0]);
      await fetchAll(peer, ['/relaxed', '/add']);
      assert.deepEqual([store.get('Sum'), told()], [3, store.stats().lastCommit]);
      await peer.stop();
      store.close();
    });

    it('takes nothing else along when it fails', async (test) => {
      const { peer, store } = await worker(test);
      const answers = await fetchAll(peer, ['/add', '/fails', '/add']);
      assert.deepEqual(answers.map(({ status }) => status), [200, 500, 200]);
      assert.deepEqual([answers[0].json().sum, answers[2].json().sum, store.get('Sum')], [1, 3, 3]);
      await peer.stop();
      store.close();
    });

    it('is committed before a lock, and when the handler waits for anything', async (test) => {
      const { peer, store } = await worker(test);
      assert.deepEqual((await peer.fetch({ path: '/locks' })).json(), { made: 1 });
      assert.deepEqual((await peer.fetch({ path: '/awaits' })).json(), { made: 1 });
      await peer.stop();
      store.close();
    });

    it('may have a long answer, or one that comes in pieces', async (test) => {
      const { peer, store } = await worker(test);
      const [, long, streamed] = await fetchAll(peer, ['/add', '/long', '/streams', '/add']);
      assert.ok(long.text === `2${'x'.repeat(2_000_000)}`);
      assert.ok(streamed.text === `${'y'.repeat(40_000)}end`);
      assert.equal(store.get('Sum'), 4);
      await peer.stop();
      store.close();
    });

    it('is committed before a handler begins that has never asked for this, or late', async (test) => {
      const { peer, store } = await worker(test);
      const before = store.stats().lastCommit;
      const [, after] = await fetchAll(peer, ['/add', '/commits']);
      assert.deepEqual(after.json(), { commits: before + 1 });
      const [first, second] = await fetchAll(peer, ['/slow', '/slow']);
      assert.deepEqual([first.json(), second.json()], [{ commits: before + 1 }, { commits: before + 2 }]);
      await peer.stop();
      store.close();
    });

    it('is committed in whatever store it was made, by whatever it was ended', async (test) => {
      const { peer, store } = await worker(test);
      assert.deepEqual((await peer.fetch({ path: '/both' })).json(), { sum: 1 });
      assert.equal(store.get('Sum'), 1);
      assert.equal((await peer.fetch({ path: '/ends' })).status, 500);
      assert.equal(store.get('Sum'), 7);
      await peer.stop();
      store.close();
    });

    it('is refused when something in it has failed half way, and nothing else is', async (test) => {
      const { peer, store } = await worker(test);
      const answers = await fetchAll(peer, ['/breaks', '/add', '/breaks', '/add']);
      assert.deepEqual(answers.map(({ status }) => status), [500, 200, 500, 200]);
      assert.match(peer.stderr, /an operation of this transaction has failed/);
      assert.deepEqual([store.get('Sum'), store.node('Unique').exists], [2, false]);
      await peer.stop();
      store.close();
    });

    it('is answered before the worker ends', async (test) => {
      const { peer, store } = await worker(test);
      peer.link.cork();
      const answer = peer.fetch({ path: '/late' });
      const stopped = peer.stop();
      peer.link.uncork();
      assert.deepEqual((await answer).json(), { sum: 1 });
      assert.equal((await stopped).code, 0);
      // Writes of a stop hook are not lost either.
      assert.deepEqual([store.get('Sum'), store.get('Stopped')], [1, true]);
      store.close();
    });

    it('makes an error of the answer when it could not be committed', async (test) => {
      const { folder, peer, store } = await worker(test);
      const log = join(folder, 'changes');
      writeFileSync(log, 'no folder');
      const failed = await peer.fetch({ path: '/add' });
      assert.deepEqual([failed.status, failed.fault], [500, true]);
      assert.equal(failed.json().detail, 'what the request has written could not be committed');
      for (const path of ['/late', '/awaits', '/streams', '/page', '/long']) {
        const answer = await peer.fetch({ path });
        assert.deepEqual([path, answer.status, answer.json().detail], [path, 500, 'what the request has written could not be committed']);
      }
      rmSync(log);
      assert.deepEqual((await peer.fetch({ path: '/add' })).json(), { sum: 1 });
      assert.match(peer.stderr, /what requests have written could not be committed: StoreError/);
      await peer.stop();
      store.close();
    });

    it('is refused under another word', async (test) => {
      const { peer, store } = await worker(test);
      assert.equal((await peer.fetch({ path: '/unknown' })).status, 500);
      assert.match(peer.stderr, /a transaction is committed now or with the answer, not "later"/);
      await peer.stop();
      store.close();
    });
  });
}
