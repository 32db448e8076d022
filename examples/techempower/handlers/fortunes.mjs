// The test of a page: all rows, one more, sorted, rendered by a template that escapes every value.
import { reply, router } from 'forebay';
import { sql } from 'forebay/sql';

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const escaped = (value) => String(value).replace(/[&<>"']/g, (c) => ESCAPES[c]);

const row = ({ id, message }) => `<tr><td>${escaped(id)}</td><td>${escaped(message)}</td></tr>`;
const page = (fortunes) =>
  `<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>${fortunes.map(row).join('')}</table></body></html>`;

const app = router();
app.get('/fortunes', async () => {
  const fortunes = [...(await sql.main.query('select id, message from fortune'))];
  fortunes.push({ id: 0, message: 'Additional fortune added at request time.' });
  fortunes.sort((one, other) => (one.message < other.message ? -1 : 1));
  return reply(page(fortunes), { headers: { 'content-type': 'text/html; charset=utf-8' } });
});

export default app;
