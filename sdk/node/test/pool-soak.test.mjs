// Random load with all kinds of failures. Set FOREBAY_SEED to repeat a failed run; FOREBAY_SOAK_MS sets the duration.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { KINDS, isAlive, until, withPool } from './pools.mjs';

const FILE = fileURLToPath(new URL('handlers/pool-soak.mjs', import.meta.url));
const SEED = Number(process.env.FOREBAY_SEED ?? Date.now() % 1_000_000);
const SOAK_MS = Number(process.env.FOREBAY_SOAK_MS ?? 4_000);

/** Random numbers from 0 to 1 (mulberry32). */
function random(seed) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 4_294_967_296;
  };
}

for (const kind of KINDS) {
  for (const concurrency of [1, 4]) {
    it(`a pool of the kind ${kind} answers every message once, whatever happens to it; ${concurrency} at a time, seed ${SEED}`, async () => {
      const next = random(SEED + concurrency);
      const upTo = (most) => Math.floor(next() * most);
      const one = (list) => list[upTo(list.length)];
      const options = {
        kind,
        concurrency,
        handlers: { soak: { file: FILE }, limited: { file: FILE, concurrency: 2 }, direct: { file: FILE, export: 'direct' } },
        size: { min: 1, max: 3 },
        queueMax: 2_000,
        retry: { attempts: 2, after: ['crash'], backoff: 5 },
        deadlines: { run: 150 },
        recycle: { messages: 3_000 },
        idleMax: 100,
        killGrace: 20,
      };
      await withPool(options, async (pool) => {
        const outcomes = new Map();
        let open = 0;
        let number = 0;
        const wrong = [];
        const check = (isRight, what) => isRight || wrong.push(what);
        const count = (outcome) => outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);

        function send(what) {
          const message = { number: ++number, what, ms: upTo(20), bytes: one([10, 40_000, 700_000]) };
          const type = what === 'now' ? one(['soak', 'limited', 'direct', 'direct']) : one(['soak', 'soak', 'limited']);
          const parts = [];
          const wishes = { type };
          if (next() < 0.1) wishes.affinity = `key ${upTo(5)}`;
          if (next() < 0.1) wishes.priority = upTo(4) - 2;
          if (next() < 0.1) wishes.deadline = { queue: upTo(60) };
          if (next() < 0.05) wishes.deadline = upTo(120);
          if (what === 'parts') wishes.onPart = (part) => parts.push(part);
          if (next() < 0.1) {
            const controller = new AbortController();
            wishes.signal = controller.signal;
            setTimeout(() => controller.abort(), upTo(80));
          }
          const expected = message.number;
          open++;
          pool.run(message, wishes).then(
            (reply) => {
              open--;
              count('answered');
              check(reply.number === expected, `the reply to ${reply.number} came to ${expected}`);
              if (what === 'bytes') check(reply.bytes.length === message.bytes && reply.bytes.every((byte) => byte === (expected & 255)), `bytes of ${expected}`);
              // A retried message sends its parts again.
              if (what === 'parts') check(parts.length >= 5 && parts.every((part) => part.number === expected), `parts of ${expected}`);
            },
            (error) => {
              open--;
              count(error.code ?? error.name);
              // A worker that is killed before its first message counts as a failed start.
              check(['handler_error', 'crashed', 'deadline', 'aborted', 'queue_full', 'start_failed'].includes(error.code), error.stack);
              if (error.code === 'handler_error') check(error.message === `thrown ${expected}` || what === 'heeds', `${error.message} came to ${expected}`);
            },
          );
        }

        let reloads = 0;
        const end = performance.now() + SOAK_MS;
        while (performance.now() < end) {
          for (let burst = one([1, 5, 20, 200]); burst > 0; burst--) send(next() < 0.97 ? 'now' : one(['waits', 'waits', 'busy', 'parts', 'throws', 'throws', 'bytes']));
          const dice = next();
          if (dice < 0.04) send('exits');
          else if (dice < 0.05) send('never');
          else if (dice < 0.07) send('heeds');
          else if (dice < 0.08) send('blocks');
          else if (dice < 0.12) {
            const max = 1 + upTo(4);
            pool.resize({ min: upTo(max + 1), max });
          } else if (dice < 0.14 && reloads === 0) {
            reloads++;
            pool.reload().then(() => reloads--, (error) => {
              reloads--;
              check(error.code === 'start_failed', error.stack);
            });
          } else if (dice < 0.2) {
            const { pid } = one(pool.stats().workers.filter(({ messages }) => messages > 0)) ?? {};
            if (pid != null && isAlive(pid)) process.kill(pid, one(['SIGKILL', 'SIGKILL', 'SIGTERM']));
          }
          await new Promise((resolve) => setTimeout(resolve, upTo(25)));
        }
        await until(() => open === 0 && reloads === 0, 'everything is settled');
        assert.deepEqual(wrong, []);
        assert.ok(outcomes.get('answered') > 100, JSON.stringify([...outcomes]));
        if (process.env.FOREBAY_SOAK_MS !== undefined) console.log(JSON.stringify([...outcomes]), JSON.stringify(pool.stats().counts));
        pool.resize({ min: 1, max: 1 });
        await until(() => pool.run({ number: 0 }, { type: 'direct' }).then(() => true, () => false), 'a message is answered');
        await until(() => pool.stats().workers.length === 1, 'one worker is left');
      });
    });
  }
}
