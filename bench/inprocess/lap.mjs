// One lap: a store in its own process performs every operation and prints the times. `node PROGRAM
// '{"folder":...,"records":...,"passes":...}'`
//
// Leaves are at ('Person', 'data', ID, 'firstName'), documents of five fields at ('Doc', 'data', ID, 'x'), with IDs from 0. They are
// visited in an order other than theirs, the same for every store.

/** The plan from the driver (../laps.mjs): `folder` for files, `records`, and the number of timed `passes`. */
export const plan = JSON.parse(process.argv[2]);

const { records, passes } = plan;
/** Coprime to all powers of ten, so that every record is visited. */
const STRIDE = 40_503;
const names = Array.from({ length: records }, (_, id) => `Ada${id}`);

/** Calls `visit` with each ID. */
export function each(visit) {
  for (let index = 0, id = 0; index < records; index++, id = (id + STRIDE) % records) visit(id);
}

/** The value of a leaf after a pass. It changes with each pass, so that no store can detect that there is nothing to write. */
export const name = (id, pass) => names[(id + pass) % records];

/** The value of a leaf after the last pass. */
export const lastName = (id) => names[(id + passes) % records];

/** The value of a document after a pass. */
export const document = (id, pass) => ({ firstName: 'Ada', lastName: 'Lovelace', city: 'London', born: 1815 + pass, id });

/** Aborts the lap if a store has returned a wrong result. */
export function expect(condition) {
  if (!condition) throw new Error('a wrong answer');
}

/**
 * Performs the operations in order, each once untimed and then `passes` times; prints for each their number, and the wall time and the CPU
 * time of all threads of the process. An operation is a function of the pass that handles every record. If a server does the work,
 * `serverCpu_us` returns its CPU time so far, which is added.
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
