// The test of a page: all rows, one more, sorted, rendered by a template that escapes every value.
import { html, router } from 'forebay';
import { sql } from 'forebay/sql';

const row = ({ id, message }) => html`<tr><td>${id}</td><td>${message}</td></tr>`;
const page = (fortunes) =>
  html`<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>${fortunes.map(row)}</table></body></html>`;

const app = router();
app.get('/fortunes', async () => {
  const fortunes = [...(await sql.main.query('select id, message from fortune'))];
  fortunes.push({ id: 0, message: 'Additional fortune added at request time.' });
  fortunes.sort((one, other) => (one.message < other.message ? -1 : 1));
  return page(fortunes);
});

export default app;
