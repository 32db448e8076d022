// When a worker claims jobs, how it starts and how it ends: against a scripted server, under Node and Bun.
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Peer, RUNTIMES, TYPES, u32, until } from './peer.mjs';

const BLOCKING = fileURLToPath(new URL('handlers/blocking.mjs', import.meta.url));
const KINDS = fileURLToPath(new URL('handlers/kinds.mjs', import.meta.url));
const TIMING = fileURLToPath(new URL('handlers/timing.mjs', import.meta.url));

/** Writes a handler file that is deleted after the test. */
function handlerFile(test, source, name = 'handler.mjs') {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-handler-'));
  test.after(() => rmSync(folder, { recursive: true }));
  const file = join(folder, name);
  writeFileSync(file, source);
  return file;
}

for (const runtime of RUNTIMES) {
  describe(`a ${runtime} worker's jobs`, () => {
    /** Starts a worker with the timing handlers. */
    const worker = (test, options = {}) => Peer.start(test, { runtime, handler: TIMING, ...options });

    it('run one at a time: the next one stays unclaimed, and can be taken back', async (test) => {
      const peer = await worker(test);
      const first = peer.request({ path: '/wait/a' });
      await until(() => peer.isClaimed(first));
      const second = peer.request({ path: '/state' });
      const third = peer.request({ path: '/state' });
      await peer.settled();
      assert.equal(peer.isClaimed(second), false);
      assert.ok(peer.revoke(second));
      assert.ok(peer.revoke(third));
      assert.equal(second.head, undefined);
    });

    it('run in the order received once there is a place', async (test) => {
      const peer = await worker(test, { concurrency: 2 });
      const first = peer.request({ path: '/wait/a' });
      const second = peer.request({ path: '/signal' });
      await until(() => peer.isClaimed(first) && peer.isClaimed(second));
      const waiting = Array.from({ length: 20 }, () => peer.request({ path: '/count' }));
      await peer.settled();
      assert.ok(waiting.every((job) => !peer.isClaimed(job)));
      assert.ok(peer.revoke(waiting[3]));
      peer.send(TYPES.ABORT, 0, second.number, second.slot, Buffer.from([2]));
      const rest = waiting.filter((_, index) => index !== 3);
      const counts = await Promise.all(rest.map(async ({ answer }) => (await answer).json()));
      assert.deepEqual(counts, rest.map((_, index) => index + 1));
      assert.equal(waiting[3].head, undefined);
    });

    it('run as many at a time as the concurrency says', async (test) => {
      const peer = await worker(test, { concurrency: 3 });
      const [a, b] = ['a', 'b'].map((name) => peer.request({ path: `/wait/${name}` }));
      await until(() => peer.isClaimed(b));
      assert.equal((await peer.fetch({ path: '/open/b' })).text, 'open');
      assert.equal((await b.answer).text, 'opened b');
      assert.equal((await peer.fetch({ path: '/open/a' })).text, 'open');
      assert.equal((await a.answer).text, 'opened a');
    });

    it('see their signal when the server aborts them, and still answer', async (test) => {
      const peer = await worker(test, { concurrency: 2 });
      for (const [reason, name] of [[1, 'AbortError'], [2, 'TimeoutError'], [3, 'AbortError']]) {
        const job = peer.request({ path: '/signal' });
        await until(() => peer.logs.some((line) => line.job === job.number));
        peer.send(TYPES.ABORT, 0, job.number, job.slot, Buffer.from([reason]));
        const answer = (await job.answer).json();
        assert.equal(answer.name, name);
        assert.equal(answer.aborted, true);
      }
      const late = peer.request({ path: '/late-signal' });
      await until(() => peer.logs.some((line) => line.job === late.number));
      peer.send(TYPES.ABORT, 0, late.number, late.slot, Buffer.from([1]));
      await peer.fetch({ path: '/open/late' });
      assert.deepEqual((await late.answer).json(), { aborted: true });
    });

    it('take no orders meant for an earlier job of their slot', async (test) => {
      const peer = await worker(test);
      const job = peer.request({ path: '/signal' });
      await until(() => peer.isClaimed(job));
      peer.send(TYPES.ABORT, 0, job.number + 4096, job.slot, Buffer.from([1]));
      await peer.settled();
      assert.equal(job.head, undefined);
      peer.send(TYPES.ABORT, 0, job.number, job.slot, Buffer.from([1]));
      assert.equal((await job.answer).status, 200);
    });

    it('fail to read a body after their answer', async (test) => {
      const peer = await worker(test);
      const job = peer.request({ method: 'POST', path: '/leaves-reading' }, { end: false });
      assert.equal((await job.answer).text, 'left');
      await until(() => peer.logs.some(({ message }) => message === 'the request was answered before all of its body was read'));
    });

    it('fail to read a body that the client gave up', async (test) => {
      const peer = await worker(test);
      for (const [type, payload] of [[TYPES.ABORT, Buffer.from([1])], [TYPES.RESET, Buffer.alloc(0)]]) {
        const job = peer.request({ method: 'POST', path: '/read' }, { end: false });
        await peer.expect(TYPES.WINDOW, (frame) => frame.job === job.number);
        peer.send(type, 0, job.number, job.slot, payload);
        assert.equal((await job.answer).status, 500);
      }
    });

    it('stream piece by piece, until the client goes', async (test) => {
      const peer = await worker(test);
      const job = peer.request({ path: '/events' });
      await until(() => Buffer.concat(job.chunks).includes('event 5'));
      peer.send(TYPES.ABORT, 0, job.number, job.slot, Buffer.from([1]));
      assert.equal((await job.answer).reset, true);
      await until(() => peer.logs.some(({ message }) => message === 'closed'));
      assert.equal((await peer.fetch({ path: '/state' })).status, 200);
    });

    it('send no more of a stream than the window allows', async (test) => {
      const peer = await worker(test, { windowBytes: 5000 });
      const job = peer.request({ path: '/endless' });
      const received = () => job.chunks.reduce((sum, chunk) => sum + chunk.length, 0);
      await until(() => received() >= 5000);
      await peer.settled();
      assert.equal(received(), 5000);
      peer.send(TYPES.WINDOW, 0, job.number, job.slot, u32(700));
      await until(() => received() >= 5700);
      await peer.settled();
      assert.equal(received(), 5700);
      assert.ok(job.chunks.slice(1).every((chunk) => chunk.length > 0), 'an empty BODY frame says nothing');
      peer.send(TYPES.ABORT, 0, job.number, job.slot, Buffer.from([1]));
      assert.equal((await job.answer).reset, true);
    });

    it('produce no more of a stream than the link takes', async (test) => {
      const peer = await worker(test, { windowBytes: 50_000_000 });
      peer.link.pause();
      peer.request({ path: '/counted' });
      const counts = () => peer.stdout.split('\n').slice(0, -1).map(Number);
      await until(() => counts().length > 10 && counts().at(-1) === counts().at(-8));
      assert.ok(counts().at(-1) < 5000, `${counts().at(-1)} pieces of 1000 bytes for a link that takes none`);
    });

    it('are not claimed while a finished answer has not left the process', async (test) => {
      const peer = await worker(test, { windowBytes: 16_000_000 });
      peer.link.pause();
      const big = peer.request({ path: '/big' });
      await until(() => peer.isClaimed(big));
      const next = peer.request({ path: '/state' });
      const beats = peer.stdout.length + 5;
      await until(() => peer.stdout.length >= beats);
      // The response is far larger than the kernel's buffers, so it cannot have been sent before the link is read again.
      assert.equal(peer.isClaimed(next), false);
      peer.link.resume();
      assert.equal((await big.answer).body.length, 1_000_000);
      assert.equal((await next.answer).status, 200);
    });

    it('are answered on the link when the outbox is full', async (test) => {
      const peer = await worker(test, { handler: KINDS });
      peer.takes = false;
      const jobs = Array.from({ length: 4000 }, () => peer.request({ path: '/size/200' }));
      await until(() => peer.linkFrames > 1000);
      peer.takes = true;
      peer.takeOutbox();
      for (const job of jobs) assert.equal((await job.answer).body.length, 200);
      assert.ok(peer.outboxFrames > 1000, `${peer.outboxFrames}`);
    });

    it('are answered on the link, unclaimed, by a worker without the page', async (test) => {
      const peer = await worker(test, { page: false });
      assert.equal(peer.hello.page, false);
      assert.deepEqual((await peer.fetch({ path: '/state' })).json(), { started: 1 });
      assert.equal(peer.outboxFrames, 0);
    });

    it('are announced before another handler starts, once they have waited for long', async (test) => {
      const peer = await worker(test, { handler: BLOCKING });
      // Three requests in one read: the first takes longer than a response may wait, so it is announced before the third starts.
      peer.link.cork();
      const [first, , last] = ['/0', '/1', '/300'].map((path) => peer.request({ path }));
      peer.link.uncork();
      await first.answer;
      assert.equal(last.head, undefined);
      assert.equal((await last.answer).text, '/300');
    });

    it('are announced by the doorbell only when the server sleeps', async (test) => {
      const peer = await worker(test);
      await peer.fetch({ path: '/state' });
      const rings = peer.rings;
      peer.sleeps(false);
      const job = peer.request({ path: '/state' });
      await until(() => peer.isClaimed(job));
      await peer.settled();
      assert.equal(peer.rings, rings);
      assert.equal(job.head, undefined);
      peer.takeOutbox();
      assert.equal((await job.answer).status, 200);
    });
  });

  describe(`a ${runtime} worker's life`, () => {
    it('starts with the hooks of the start module and the handler, before READY', async (test) => {
      const start = handlerFile(test, 'export async function onStart(ctx) { ctx.state.first = ctx.worker.pool; }');
      const peer = await Peer.start(test, { runtime, handler: TIMING, start });
      assert.deepEqual(peer.logs.map(({ message, job }) => [message, job]), [['started', 0]]);
      assert.deepEqual((await peer.fetch({ path: '/state' })).json(), { first: 'api', started: 1 });
      await peer.stop();
    });

    it('takes hooks from what is exported, not from an application of a framework', async (test) => {
      const application = `
        class Application {
          fetch = () => Response.json(globalThis.started ?? []);
          onStart() { throw new Error('a method of the framework'); }
          onStop() { throw new Error('another'); }
        }
        export default new Application();
        export const onStart = () => void (globalThis.started = ['exported']);`;
      const peer = await Peer.start(test, { runtime, handler: handlerFile(test, application) });
      assert.deepEqual((await peer.fetch({ path: '/' })).json(), ['exported']);
      await peer.stop();
    });

    for (const [what, source, message, stack = /./] of [
      ['throws', 'throw new Error("no database")', /^no database$/],
      ['imports what is not there', 'import "./nowhere.mjs"', /nowhere\.mjs/],
      ['is not JavaScript', 'export default {', /./, /handler\.mjs:\d/],
      ['exports no handler', 'export const other = 1', /exports no handler.*found other \(number\)/],
      ['exports nothing', '', /exports no handler.*found no exports/],
      ['has a start hook that fails', 'export default () => 1; export async function onStart() { throw new Error("not today") }', /^not today$/],
    ]) {
      it(`says FAILED and ends when its handler ${what}`, async (test) => {
        const peer = await Peer.start(test, { runtime, handler: handlerFile(test, source), ready: false });
        const failed = JSON.parse((await peer.expect(TYPES.FAILED)).payload);
        assert.match(failed.message, message);
        assert.match(failed.stack, stack);
        assert.deepEqual(await peer.exited, { code: 1, signal: null });
        assert.equal(peer.stderr, '', 'the server logs the failure');
      });
    }

    for (const [what, end] of [
      ['DRAIN', (peer) => peer.send(TYPES.DRAIN, 0, 0, 0)],
      ['SIGTERM', (peer) => peer.child.kill('SIGTERM')],
    ]) {
      it(`ends on ${what}: claimed jobs finish, others are left to the server, stop hooks run`, async (test) => {
        const peer = await Peer.start(test, { runtime, handler: TIMING, concurrency: 2 });
        const job = peer.request({ path: '/events' });
        await until(() => job.head !== undefined);
        end(peer);
        await peer.settled();
        const late = peer.request({ path: '/state' });
        await peer.settled();
        assert.equal(peer.isClaimed(late), false);
        assert.ok(peer.revoke(late));
        assert.equal(peer.child.exitCode, null);
        peer.send(TYPES.ABORT, 0, job.number, job.slot, Buffer.from([1]));
        assert.deepEqual(await peer.exited, { code: 0, signal: null });
        assert.match(peer.stdout, /stopped after undefined runs/);
      });
    }

    it('answers on DRAIN what it was sent, when it has no page to leave it on', async (test) => {
      const peer = await Peer.start(test, { runtime, handler: TIMING, page: false });
      const first = peer.request({ path: '/signal' });
      const second = peer.request({ path: '/state' });
      peer.send(TYPES.DRAIN, 0, 0, 0);
      await peer.settled();
      peer.send(TYPES.ABORT, 0, first.number, first.slot, Buffer.from([1]));
      assert.equal((await second.answer).status, 200);
      assert.deepEqual(await peer.exited, { code: 0, signal: null });
      assert.match(peer.stdout, /stopped after undefined runs/);
    });

    it('ends at once on DRAIN when it is idle', async (test) => {
      const peer = await Peer.start(test, { runtime, handler: TIMING });
      assert.deepEqual(await peer.stop(), { code: 0, signal: null });
    });

    it('outlives SIGINT, which a terminal sends to the whole group', async (test) => {
      const peer = await Peer.start(test, { runtime, handler: TIMING });
      peer.child.kill('SIGINT');
      assert.equal((await peer.fetch({ path: '/state' })).status, 200);
      await peer.stop();
    });

    it('ends when the link does, whatever it is doing', async (test) => {
      const peer = await Peer.start(test, { runtime, handler: TIMING });
      const job = peer.request({ path: '/wait/a' });
      await until(() => peer.isClaimed(job));
      peer.link.destroy();
      assert.equal((await peer.exited).signal, null);
    });

    it('keeps its descriptors from the processes that handlers start', async (test) => {
      const handler = handlerFile(test, `
        import { spawnSync } from 'node:child_process';
        import { readlinkSync } from 'node:fs';
        export default () => ({
          own: [3, 4, 5].map((fd) => readlinkSync('/proc/self/fd/' + fd)),
          child: spawnSync('ls', ['-l', '/proc/self/fd'], { encoding: 'utf8' }).stdout,
        });`);
      const peer = await Peer.start(test, { runtime, handler });
      const { own, child } = (await peer.fetch({ path: '/' })).json();
      for (const target of own) assert.ok(!child.includes(target), `${target} in ${child}`);
      await peer.stop();
    });

    for (const [path, message] of [
      ['/throw-later', /uncaughtException, this worker ends: Error: thrown outside/],
      ['/reject-later', /unhandledRejection, this worker ends: Error: rejected outside/],
    ]) {
      it(`ends with status 1 after ${path}`, async (test) => {
        const peer = await Peer.start(test, { runtime, handler: TIMING });
        assert.equal((await peer.fetch({ path })).text, 'fine');
        assert.deepEqual(await peer.exited, { code: 1, signal: null });
        assert.match(peer.stderr, message);
      });
    }

    it('leaves the answers of jobs before a crash in the outbox', async (test) => {
      const peer = await Peer.start(test, { runtime, handler: TIMING });
      peer.takes = false;
      peer.child.once('exit', () => peer.takeOutbox());
      const before = peer.request({ path: '/state' });
      const crash = peer.request({ path: '/exit' });
      const after = peer.request({ path: '/state' });
      assert.equal((await peer.exited).code, 3);
      assert.equal((await before.answer).status, 200);
      assert.equal(peer.isClaimed(crash), true);
      assert.equal(peer.isClaimed(after), false);
      assert.ok(peer.revoke(after));
    });
  });
}
