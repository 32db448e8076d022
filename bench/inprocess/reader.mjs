// A process that reads a store: `node reader.mjs FOLDER RECORDS`. Every read is its own transaction.
import { open } from '../../sdk/node/dist/store/index.js';
import { answerLines } from './answering.mjs';

const [, , folder, text] = process.argv;
const records = Number(text);
const store = open(folder, { readOnly: true });
const BATCH = 1000; // reads between two checks of the clock
let id = process.pid % records;

/** Reads leaves in an irregular order for so many milliseconds; returns their number and the CPU time. */
function read(milliseconds) {
  const cpuBefore = process.cpuUsage();
  const began = performance.now();
  let reads = 0;
  while (performance.now() - began < milliseconds) {
    for (let index = 0; index < BATCH; index++, id = (id + 40_503) % records) {
      if (!store.get('Person', 'data', id, 'firstName').startsWith('Ada')) throw new Error('a wrong answer');
    }
    reads += BATCH;
  }
  const { user, system } = process.cpuUsage(cpuBefore);
  return { reads, cpu_us: user + system };
}

await answerLines({ read, look: () => store.get('Marker') });
store.close();
