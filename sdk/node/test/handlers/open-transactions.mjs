// Handlers that leave transactions open.
import { server } from 'forebay/mg-dbx';
import { json, router, store } from 'forebay';

const db = new server();
db.open();
let looked;
const anotherLooked = new Promise((resolve) => (looked = resolve));
const app = router();
app.get('/nests', () => {
  store.transaction(() => {
    db.tstart();
    db.set('Left', 'nests', 1);
    db.tcommit();
  });
  return { done: true };
});
app.get('/returns', () => {
  db.tstart();
  db.set('Left', 'returns', 1);
  return { done: true };
});
app.get('/throws', () => {
  db.tstart();
  db.tstart();
  db.set('Left', 'throws', 1);
  throw new Error('on purpose');
});
app.get('/settles', async () => {
  await null;
  db.tstart();
  db.set('Left', 'settles', 1);
  return { done: true };
});
app.get('/late', async () => {
  await anotherLooked;
  db.tstart();
  db.set('Left', 'late', 1);
  return { done: true };
});
app.get('/streams', () => {
  async function* body() {
    yield 'a';
    db.tstart();
    db.set('Left', 'streams', 1);
    yield 'b';
  }
  return body();
});
app.get('/awaits', async () => {
  db.tstart();
  db.set('Kept', 'awaits', 1);
  await anotherLooked;
  return json({ done: db.tcommit() });
});
app.get('/commits', () => {
  db.tstart();
  db.set('Kept', 'commits', 1);
  return { done: db.tcommit() };
});
app.get('/kept', () => ({ level: db.tlevel(), left: db.defined('Left'), kept: db.next('Kept', '') + db.next('Kept', 'awaits') }));
app.get('/level', () => {
  looked();
  return { level: db.tlevel() };
});
export default app;
