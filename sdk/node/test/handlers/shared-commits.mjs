// Handlers whose transactions are committed with their responses.
import { server } from 'forebay/mg-dbx';
import { router, store } from 'forebay';
import { open } from 'forebay/store';

const app = router();
const db = new server();
db.open();
const commits = () => store.stats().lastCommit;
const add = () => store.transaction(() => store.node('Sum').increment(), { commit: 'answer' });

app.get('/add', () => ({ sum: add() }));
app.get('/relaxed', () => ({
  sum: store.transaction(() => store.node('Sum').increment(), { commit: 'answer', durability: 'relaxed' }),
}));
app.get('/twice', () => {
  const before = commits();
  const sums = [add(), add()];
  return { sums, own: store.get('Sum'), made: commits() - before };
});
app.get('/fails', () => {
  add();
  store.transaction(() => {
    store.set('Sum', 1000);
    throw new Error('on purpose');
  }, { commit: 'answer' });
});
app.get('/locks', () => {
  const before = commits();
  add();
  store.node('Lock').lock(0);
  store.unlockAll();
  return { made: commits() - before };
});
app.get('/awaits', async () => {
  const before = commits();
  add();
  await new Promise(setImmediate);
  return { made: commits() - before };
});
app.get('/late', async () => {
  await new Promise(setImmediate);
  return { sum: add() };
});
app.get('/slow', () => {
  const before = commits();
  add();
  const end = performance.now() + 5;
  while (performance.now() < end);
  return { commits: before };
});
app.get('/both', () => {
  const other = open(process.env.OTHER_STORE);
  other.transaction(() => other.set('Sum', 1), { commit: 'answer' });
  const sum = add();
  other.close();
  return { sum };
});
app.get('/ends', () => {
  store.transaction(() => {
    store.set('Sum', 7);
    db.tcommit();
  }, { commit: 'answer' });
});
app.get('/breaks', () => {
  store.transaction(() => {
    store.defineIndex({ name: 'by_n', records: store.node('Unique'), fields: ['n'], unique: true });
    store.set('Unique', 1, { n: 1 });
    try {
      store.set('Unique', 2, { n: 1 });
    } catch {
      // The transaction cannot continue, even if the error is caught.
    }
  }, { commit: 'answer' });
});
app.onStop(async () => {
  await null;
  store.transaction(() => store.set('Stopped', true), { commit: 'answer' });
});
app.get('/commits', () => ({ commits: commits() }));
app.get('/long', () => `${add()}${'x'.repeat(2_000_000)}`);
app.get('/page', () => `${add()}${'x'.repeat(20_000)}`);
app.get('/streams', async function* () {
  add();
  yield 'y'.repeat(40_000);
  yield 'end';
});
app.get('/unknown', () => store.transaction(() => {}, { commit: 'later' }));
export default app;
