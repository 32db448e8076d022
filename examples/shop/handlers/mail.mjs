// Confirms an order by mail. MAIL_URL takes it as JSON, as the APIs of mail services do; without it, mails are kept in the store: Mail(order).
import { HttpError, router, store } from 'forebay';
import { order } from '../src/orders.mjs';
import { money } from '../src/pages.mjs';

const { MAIL_URL, MAIL_TOKEN } = process.env;
const app = router();

app.post('/confirmations', async (request, { signal }) => {
  const { order: id } = await request.json();
  const placed = order(id);
  if (placed === undefined) return { sent: false, because: 'the checkout was not finished' };
  if (placed.confirmed) return { sent: false, because: 'it was sent before' };
  const lines = placed.lines.map(({ quantity, name }) => `${quantity} × ${name}`);
  const mail = { to: placed.email, subject: 'Your order', text: `Thank you, ${placed.name}!\n\n${lines.join('\n')}\n\nTotal ${money(placed.total)}\n` };
  if (MAIL_URL) {
    // The key is the same in every attempt, so a service that knows such keys sends one mail.
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${MAIL_TOKEN}`, 'idempotency-key': id };
    const answer = await fetch(MAIL_URL, { method: 'POST', headers, body: JSON.stringify(mail), signal });
    // 500 or more is tried again later, less is not.
    if (!answer.ok) throw new HttpError(answer.status < 500 ? 422 : 502, `the mail service answered ${answer.status}`);
  } else {
    store.set('Mail', id, mail);
  }
  store.set('Order', id, 'confirmed', new Date().toISOString());
  return { sent: true };
});

export default app;
