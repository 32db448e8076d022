// Handlers whose transactions are committed with their answers.
import { router, store } from 'forebay';

const app = router();
const commits = () => store.stats().lastCommit;
const add = () => store.transaction(() => store.node('Sum').increment(), { commit: 'answer' });

app.get('/add', () => ({ sum: add() }));
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
  const sum = add();
  const end = performance.now() + 5;
  while (performance.now() < end);
  return { sum };
});
app.get('/commits', () => ({ commits: commits() }));
app.get('/long', () => `${add()}${'x'.repeat(2_000_000)}`);
app.get('/streams', async function* () {
  add();
  yield 'y'.repeat(40_000);
  yield 'end';
});
app.get('/unknown', () => store.transaction(() => {}, { commit: 'later' }));
export default app;
