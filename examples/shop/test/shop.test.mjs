// The shop as its customers use it: the real server, with the configuration that is served, and an empty store.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from 'forebay/testing';

const cwd = fileURLToPath(new URL('..', import.meta.url));
const STATE = mkdtempSync(join(tmpdir(), 'shop-'));
const [SENCHA, JASMINE, BREAKFAST, EARL_GREY, LAPSANG, , FERRY] = [1, 2, 3, 4, 5, 6, 7];
const STAFF = { authorization: `Basic ${btoa('staff:staff')}` };

/** The mail service: keeps what it gets. */
const mails = [];
const service = createServer(async (request, response) => {
  const chunks = await request.toArray();
  mails.push({ key: request.headers['idempotency-key'], ...JSON.parse(Buffer.concat(chunks)) });
  response.end();
});

let env;
let server;
const forebay = (...args) => execFileSync('forebay', args, { cwd, env: { ...process.env, ...env }, encoding: 'utf8', stdio: 'pipe' });

before(async () => {
  await once(service.listen(0, '127.0.0.1'), 'listening');
  env = { STATE, MAIL_URL: `http://127.0.0.1:${service.address().port}`, MAIL_TOKEN: 'secret' };
  forebay('store', 'import', 'seed.ndjson', '--data', join(STATE, 'data'));
  server = await serve(['--listen', `unix:${STATE}/server.sock`], { cwd, env });
});

after(async () => {
  await server?.stop();
  service.close();
  rmSync(STATE, { recursive: true });
});

/** A browser without scripts: it keeps the cookie of the cart. */
class Customer {
  #cookie = '';

  get = (path) => this.#ask(path);
  post = (path, fields, headers) => this.#ask(path, { method: 'POST', body: new URLSearchParams(fields), headers });
  add = (product, quantity = 1) => this.post('/cart', { product, quantity });
  order = (order = randomUUID()) => this.post('/orders', { order, name: 'Ada & Co', email: 'ada@example.org' });

  async #ask(path, init = {}) {
    const response = await fetch(`${server.url}${path}`, { redirect: 'manual', ...init, headers: { cookie: this.#cookie, ...init.headers } });
    const [cookie] = response.headers.getSetCookie();
    if (cookie !== undefined) this.#cookie = cookie.split(';')[0];
    return { status: response.status, location: response.headers.get('location'), text: await response.text() };
  }
}

const stock = (product) => Number(forebay('store', 'get', `Stock/${product}`, '--data', join(STATE, 'data')));

test('the catalogue shows teas by category and by a part of their name', async () => {
  const names = async (path) => [...(await new Customer().get(path)).text.matchAll(/<h2>(.+?)<\/h2>/g)].map(([, name]) => name);
  assert.equal((await names('/')).length, 7);
  assert.deepEqual(await names('/?category=green'), ['Harbour Sencha', 'Lantern Jasmine']);
  assert.deepEqual(await names('/?search=LAP'), ['Lowtide Lapsang']);
  assert.match((await new Customer().get('/?search=(((%5B')).text, /No tea is called that/);
});

test('other programs read the catalogue, and nothing else', async () => {
  const products = await fetch(`${server.url}/api/products/?kind=Product&full`);
  assert.equal((await products.json()).length, 7);
  assert.equal((await fetch(`${server.url}/api/products/?kind=Order&full`)).status, 403);
  assert.equal((await fetch(`${server.url}/api/products/1`, { method: 'DELETE' })).status, 405);
});

test('an order takes its teas from the stock, is confirmed by mail, and is followed until it is shipped', async () => {
  const customer = new Customer();
  await customer.add(SENCHA, 2);
  await customer.add(EARL_GREY);
  assert.match((await customer.get('/cart')).text, /Total<td>€ 28.20/);
  const { status, location } = await customer.order();
  assert.equal(status, 303);
  const page = (await customer.get(location)).text;
  assert.match(page, /Thank you, Ada &amp; Co!/);
  assert.match(page, /Being packed/);
  assert.match((await customer.get('/cart')).text, /It is empty/);
  assert.deepEqual([stock(SENCHA), stock(EARL_GREY)], [22, 17]);

  // The job waits for a few seconds, in case the checkout does not finish; `retry` has it begin now.
  const { jobs: [job] } = JSON.parse(forebay('jobs', 'list', '--json'));
  forebay('jobs', 'retry', job.id);
  const outcome = await (await fetch(`${server.url}/confirmations/jobs/${job.id}?wait=20s`)).json();
  assert.deepEqual([outcome.state, JSON.parse(outcome.response.body)], ['done', { sent: true }]);
  const id = location.slice('/orders/'.length);
  assert.deepEqual(mails, [{ key: id, to: 'ada@example.org', subject: 'Your order', text: 'Thank you, Ada & Co!\n\n2 × Harbour Sencha\n1 × Quiet Cove Earl Grey\n\nTotal € 28.20\n' }]);
  assert.match((await customer.get(location)).text, /A confirmation was sent/);

  const socket = new WebSocket(`${server.url}${location}/live`.replace('http', 'ws'));
  await once(socket, 'open');
  const news = once(socket, 'message');
  assert.equal((await customer.post(`/staff/orders/${id}/ship`)).status, 401);
  assert.equal((await customer.post(`/staff/orders/${id}/ship`, {}, STAFF)).status, 303);
  await news;
  socket.close();
  assert.match((await customer.get(location)).text, /Shipped/);
  assert.equal((await customer.post(`/staff/orders/${id}/ship`, {}, STAFF)).status, 409);
});

test('of twenty customers who want one of twelve, twelve get it', async () => {
  const results = await Promise.all(Array.from({ length: 20 }, async () => {
    const customer = new Customer();
    await customer.add(JASMINE);
    return (await customer.order()).location;
  }));
  assert.equal(results.filter((location) => location.startsWith('/orders/')).length, 12);
  assert.equal(results.filter((location) => location.startsWith('/cart?problem=')).length, 8);
  assert.equal(stock(JASMINE), 0);
});

test('an order that lacks one tea takes none, and says which', async () => {
  const customer = new Customer();
  await customer.add(BREAKFAST, 5);
  await customer.add(FERRY);
  const { location } = await customer.order();
  assert.match((await customer.get(location)).text, /of Evening Ferry there are only 0 left/);
  assert.equal(stock(BREAKFAST), 40);
  await customer.add(FERRY, 0);
  assert.match((await customer.order()).location, /^\/orders\//);
  assert.equal(stock(BREAKFAST), 35);
});

test('a form that is sent twice is one order', async () => {
  const customer = new Customer();
  await customer.add(LAPSANG);
  const order = randomUUID();
  const [first, second] = await Promise.all([customer.order(order), customer.order(order)]);
  assert.deepEqual([first.location, second.location], [`/orders/${order}`, `/orders/${order}`]);
  assert.equal(stock(LAPSANG), 2);
});

test('staff see orders as they come in', async () => {
  const socket = new WebSocket(`${server.url}/staff/orders/live`.replace('http', 'ws'), { headers: STAFF });
  await once(socket, 'open');
  const news = once(socket, 'message');
  const customer = new Customer();
  await customer.add(SENCHA);
  const { location } = await customer.order();
  await news;
  socket.close();
  assert.ok((await (await fetch(`${server.url}/staff/orders`, { headers: STAFF })).text()).includes(location));
});

test('what nobody should be able to do is refused', async () => {
  const customer = new Customer();
  assert.equal((await customer.post('/cart', { product: SENCHA, quantity: 1 }, { 'sec-fetch-site': 'cross-site' })).status, 403);
  assert.equal((await customer.add(SENCHA, -1)).status, 422);
  assert.equal((await customer.add(99)).status, 422);
  assert.match((await customer.order()).location, /empty/);
  assert.equal((await customer.get(`/orders/${randomUUID()}`)).status, 404);
  const { headers } = await fetch(server.url);
  assert.match(headers.get('content-security-policy'), /default-src 'none'/);
});

test('a job for a checkout that was not finished sends nothing', async () => {
  const sent = mails.length;
  const enqueue = (body) => fetch(`${server.url}/confirmations`, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  const accepted = await enqueue({ order: randomUUID() });
  assert.equal(accepted.status, 202);
  const outcome = await (await fetch(`${server.url}${accepted.headers.get('location')}?wait=20s`)).json();
  assert.deepEqual([outcome.state, mails.length], ['done', sent]);
  assert.equal((await enqueue({})).status, 422);
});

test('the configuration for the internet is valid', () => {
  assert.match(execFileSync('forebay', ['check', '-c', 'production.toml'], { cwd, env: { ...process.env, STATE, DOMAIN: 'shop.example', STAFF_PASSWORD: '$argon2id$v=19$m=1024,t=2,p=1$5sCFINnK4LaXhKEWwRai7A$TupL9WOXNxrbaKIRhq0gKR/iidzxqxhUg/xf9NlQXf4' }, encoding: 'utf8' }), /acme/);
});
