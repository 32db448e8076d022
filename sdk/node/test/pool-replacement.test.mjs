// Workers that are replaced while they run something.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Pool } from '../dist/pool/index.js';

/** Signals its start, and replies with its worker's id after the time given in the message. */
const WAIT = `
  ctx.send('begun');
  return new Promise((resolve) => setTimeout(resolve, message.ms, ctx.worker.id));
`;

/** Runs a message, and waits until its handler has started. */
async function begun(pool, ms) {
  let reply;
  await new Promise((resolve) => (reply = pool.run({ ms }, { onPart: resolve })));
  return { reply };
}

for (const kind of ['process', 'thread']) {
  it(`a ${kind} that is one too many after resize finishes what it runs, and what waited behind it goes to others`, async () => {
    const pool = new Pool({ kind, handlers: { wait: { source: WAIT } }, size: { min: 2, max: 2 } });
    await pool.ready;
    const running = await Promise.all([begun(pool, 100), begun(pool, 100)]);
    const waiting = Array.from({ length: 4 }, () => pool.run({ ms: 0 }));
    pool.resize({ min: 1, max: 1 });
    assert.equal(new Set(await Promise.all(running.map(({ reply }) => reply))).size, 2);
    assert.equal(new Set(await Promise.all(waiting)).size, 1);
    await pool.close();
    const { accepted, answered } = pool.stats().counts;
    assert.deepEqual([accepted, answered], [6, 6]);
  });

  it(`a ${kind} that runs a message while the pool is reloaded answers it`, async () => {
    const pool = new Pool({ kind, handlers: { wait: { source: WAIT } }, size: { min: 1, max: 1 } });
    await pool.ready;
    const { reply } = await begun(pool, 1_000);
    await pool.reload();
    assert.equal(pool.stats().counts.answered, 0);
    assert.equal(await reply, 1);
    assert.equal(await pool.run({ ms: 0 }), 2);
    await pool.close();
  });
}
