// A process that writes a store: `node writer.mjs FOLDER RECORDS`. It fills the store before it answers any command.
import { open } from '../../sdk/node/dist/store/index.js';
import { answerLines } from './answering.mjs';

const [, , folder, text] = process.argv;
const records = Number(text);
const store = open(folder, { durability: 'relaxed' });
const LEAVES = 10; // changed by each commit
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

/** Commits continuously for so many milliseconds; returns the number of commits. */
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
