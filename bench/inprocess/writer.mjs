// A process that writes a store: `node writer.mjs FOLDER RECORDS`. It fills it before it answers anything.
import { open } from '../../sdk/node/dist/store/index.js';
import { answerLines } from './answering.mjs';

const [, , folder, text] = process.argv;
const records = Number(text);
const store = open(folder, { durability: 'relaxed' });
const LEAVES = 10; // that a commit changes
let id = 0;
let commits = 0;

store.transaction(() => {
  for (let each = 0; each < records; each++) store.set('Person', 'data', each, 'firstName', `Ada${each}`);
});

function commit() {
  store.transaction(() => {
    for (let index = 0; index < LEAVES; index++, id = (id + 7919) % records) store.set('Person', 'data', id, 'firstName', `Ada${commits}`);
  });
  commits++;
}

/** Commits without a pause for so many milliseconds; how many times. */
function write(milliseconds) {
  const [began, before] = [performance.now(), commits];
  while (performance.now() - began < milliseconds) commit();
  return { commits: commits - before, milliseconds: performance.now() - began };
}

/** Commits a marker. */
function mark(number) {
  store.set('Marker', number);
  return number;
}

await answerLines({ write, mark });
store.close();
