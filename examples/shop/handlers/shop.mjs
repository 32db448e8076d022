// The pages of the shop. Forms work without scripts; public/follow.mjs shows news of orders while they happen.
import { randomUUID } from 'node:crypto';
import { HttpError, broadcast, reply, router, websocket } from 'forebay';
import { enqueue } from '../src/jobs.mjs';
import { CATEGORIES, cart, latestOrders, order, placeOrder, products, setQuantity, ship } from '../src/orders.mjs';
import * as pages from '../src/pages.mjs';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Longer than a request of this pool may take (`run_timeout`), so that the order is there, or will never be. */
const CONFIRMATION_DELAY = '5s';

const app = router();

app.get('/', ({ query, cookies }) => {
  const category = CATEGORIES.find((name) => name === query.get('category'));
  const search = (query.get('search') ?? '').trim().slice(0, 50);
  return pages.catalogue({ category, search, products: products({ category, search }), cart: cart(cookies.cart) });
});

app.get('/cart', ({ cookies, query }) => pages.cart({ lines: cart(cookies.cart), order: randomUUID(), problem: query.get('problem') }));

app.post('/cart', async (request) => {
  const fields = await form(request);
  const { cart: known } = request.cookies;
  const id = UUID.test(known) ? known : randomUUID();
  setQuantity(id, Number(fields.get('product')), Number(fields.get('quantity')));
  const secure = request.url.startsWith('https:') ? '; Secure' : '';
  return seeOther('/cart', { 'set-cookie': `cart=${id}; Path=/; Max-Age=1209600; HttpOnly; SameSite=Lax${secure}` });
});

app.post('/orders', async (request) => {
  const fields = await form(request);
  const [id, name, email] = ['order', 'name', 'email'].map((field) => (fields.get(field) ?? '').trim());
  if (!UUID.test(id)) throw new HttpError(422, 'the form has no valid order');
  if (name === '' || name.length > 100) throw new HttpError(422, 'a name has 1 to 100 characters');
  if (!/^\S+@\S+\.\S+$/.test(email) || email.length > 200) throw new HttpError(422, 'this is not an address of e-mail');
  // The job comes first. If the checkout fails, it finds no order and does nothing; the other way round, an order could stay unconfirmed.
  await enqueue('/confirmations', { order: id }, { key: id, delay: CONFIRMATION_DELAY });
  try {
    placeOrder(id, request.cookies.cart, { name, email });
  } catch (error) {
    if (error instanceof HttpError && error.status === 409) return seeOther(`/cart?problem=${encodeURIComponent(error.message)}`);
    throw error;
  }
  broadcast('staff', 'news');
  return seeOther(`/orders/${id}`);
});

app.get('/orders/:id', ({ params }) => pages.order(found(params.id)));

app.get('/orders/:id/live', ({ params }) => {
  found(params.id);
  return websocket({ open: (socket) => socket.join(params.id) });
});

app.get('/staff/orders', () => pages.staff(latestOrders()));

app.get('/staff/orders/live', () => websocket({ open: (socket) => socket.join('staff') }));

app.post('/staff/orders/:id/ship', async (request) => {
  await form(request);
  const { id } = request.params;
  found(id);
  ship(id);
  for (const room of [id, 'staff']) broadcast(room, 'news');
  return seeOther('/staff/orders');
});

/** The fields of a form of this site: pages of other sites send none in the name of our customers. */
async function form(request) {
  if (!['same-origin', 'none', null].includes(request.headers.get('sec-fetch-site'))) throw new HttpError(403, 'this form is of another site');
  return (await request.form()).fields;
}

function found(id) {
  const placed = UUID.test(id) ? order(id) : undefined;
  if (placed === undefined) throw new HttpError(404, 'there is no such order');
  return { id, ...placed };
}

const seeOther = (location, headers = {}) => reply(null, { status: 303, headers: { location, ...headers } });

export default app;
