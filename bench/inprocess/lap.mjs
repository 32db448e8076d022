// One lap: a store in a process of its own does everything once, and prints what it took. `node PROGRAM '{"folder":...,"records":...,"passes":...}'`
//
// Leaves lie at ('Person', 'data', ID, 'firstName'), documents of five fields at ('Doc', 'data', ID, 'x'), IDs from 0 on. They are visited
// in an order that is not theirs, the same for every store.

/** What the driver (../laps.mjs) asks for: `folder` for files, `records`, and `passes` that are timed. */
export const plan = JSON.parse(process.argv[2]);

const { records, passes } = plan;
/** Without a common divisor with numbers of records that are powers of ten. */
const STRIDE = 40_503;
const names = Array.from({ length: records }, (_, id) => `Ada${id}`);

/** Calls `visit` with every ID. */
export function each(visit) {
  for (let index = 0, id = 0; index < records; index++, id = (id + STRIDE) % records) visit(id);
}

/** The value of a leaf after a pass. It is another one after each, so that no store can see that it has nothing to do. */
export const name = (id, pass) => names[(id + pass) % records];

/** The value of a leaf after the last pass. */
export const lastName = (id) => names[(id + passes) % records];

/** The value of a document after a pass. */
export const document = (id, pass) => ({ firstName: 'Ada', lastName: 'Lovelace', city: 'London', born: 1815 + pass, id });

/** Ends the lap when a store has given a wrong answer. */
export function expect(condition) {
  if (!condition) throw new Error('a wrong answer');
}

/**
 * Does the operations in order: each once untimed, then `passes` times; prints for each how many there were, and what wall time and CPU time
 * of all threads of the process they took. An operation is a function of the pass that does it for every record. Where a server does the work,
 * `serverCpu_us` tells its CPU time so far, which is added.
 */
export async function lap(operations, serverCpu_us = () => 0) {
  const results = {};
  for (const [operation, run] of Object.entries(operations)) {
    await run(0);
    const [cpuBefore, serverBefore_us] = [process.cpuUsage(), serverCpu_us()];
    const began = performance.now();
    for (let pass = 1; pass <= passes; pass++) await run(pass);
    const seconds = (performance.now() - began) / 1e3;
    const { user, system } = process.cpuUsage(cpuBefore);
    results[operation] = { operations: records * passes, seconds, cpu_seconds: (user + system + serverCpu_us() - serverBefore_us) / 1e6 };
  }
  console.log(JSON.stringify(results));
}
