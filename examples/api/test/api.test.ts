// The API as its clients use it: the real server, with the variables of development.env, on a database for tests.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { serve, type TestServer } from 'forebay/testing';

const cwd = fileURLToPath(new URL('..', import.meta.url));
let server: TestServer;

before(async () => {
  server = await serve([], { cwd });
  // The first worker creates the tables.
  while ((await ask('display', 'GET', '/rooms')).status !== 200) await setTimeout(20);
});

after(() => server?.stop());

/** Asks the API as one of its clients; `body` is sent as JSON. */
async function ask(client: string | undefined, method: string, path: string, body?: unknown) {
  const headers = { ...(client && { 'x-api-key': client }), ...(body !== undefined && { 'content-type': 'application/json' }) };
  const response = await fetch(`${server.url}${path}`, { method, headers, body: body === undefined ? null : JSON.stringify(body) });
  const type = response.headers.get('content-type') ?? '';
  return { status: response.status, body: type.includes('json') ? await response.json() : await response.text() };
}

/** A time of a day in the future. */
const at = (time: string) => `2099-03-02T${time}:00Z`;

const room = async (number: number, seats = 8) => {
  const { status } = await ask('reception', 'PUT', `/rooms/${number}`, { name: `Room ${number}`, seats });
  assert.equal(status, 200);
};

test('a client needs a key, and the right to change something', async () => {
  assert.equal((await ask(undefined, 'GET', '/rooms')).status, 401);
  assert.equal((await ask('wrong', 'GET', '/rooms')).status, 401);
  assert.equal((await ask('display', 'GET', '/rooms')).status, 200);
  assert.equal((await ask('display', 'PUT', '/rooms/1', { name: 'Mine', seats: 1 })).status, 403);
  assert.equal((await ask(undefined, 'GET', '/nowhere')).status, 401);
});

test('a room is created, replaced, found by its seats, and removed', async () => {
  await room(101, 4);
  await room(101, 12);
  assert.deepEqual((await ask('display', 'GET', '/rooms/101')).body, { number: 101, name: 'Room 101', seats: 12 });
  assert.deepEqual((await ask('display', 'GET', '/rooms?seats=12')).body.map(({ number }: any) => number), [101]);
  assert.equal((await ask('reception', 'DELETE', '/rooms/101')).status, 204);
  assert.equal((await ask('reception', 'DELETE', '/rooms/101')).status, 404);
  assert.equal((await ask('display', 'GET', '/rooms/101')).status, 404);
});

test('a room is booked by one at a time, and is not free meanwhile', async () => {
  await room(102);
  const morning = { room: 102, title: 'Plans', starts: at('09:00'), ends: at('10:00') };
  const results = await Promise.all(Array.from({ length: 8 }, () => ask('calendar', 'POST', '/bookings', morning)));
  assert.deepEqual(results.map(({ status }) => status).sort(), [201, 409, 409, 409, 409, 409, 409, 409]);
  const [booking] = results.find(({ status }) => status === 201)!.body;
  assert.equal(booking.booked_by, 'calendar');
  const { body: refused } = results.find(({ status }) => status === 409)!;
  assert.equal(refused.detail, 'the room is taken');
  assert.deepEqual(refused.conflicts.map(({ id }: any) => id), [booking.id]);

  const free = async (from: string, to: string) => (await ask('display', 'GET', `/rooms?starts=${at(from)}&ends=${at(to)}`)).body.some(({ number }: any) => number === 102);
  assert.equal(await free('09:30', '11:00'), false);
  assert.equal(await free('10:00', '11:00'), true);
  assert.equal((await ask('reception', 'DELETE', '/rooms/102')).status, 409);

  assert.equal((await ask('reception', 'DELETE', `/bookings/${booking.id}`)).status, 403);
  assert.equal((await ask('calendar', 'DELETE', `/bookings/${booking.id}`)).status, 204);
  assert.equal((await ask('calendar', 'DELETE', `/bookings/${booking.id}`)).status, 404);
});

test('a weekly booking is made for all weeks or none', async () => {
  await room(103);
  const standup = { room: 103, title: 'Stand-up', starts: '2099-01-05T09:00:00Z', ends: '2099-01-05T09:15:00Z', weeks: 4 };
  const third = { room: 103, title: 'Visitors', starts: '2099-01-19T08:00:00Z', ends: '2099-01-19T12:00:00Z' };
  const { body: [visit] } = await ask('reception', 'POST', '/bookings', third);
  const refused = await ask('calendar', 'POST', '/bookings', standup);
  assert.deepEqual([refused.status, refused.body.conflicts.map(({ id }: any) => id)], [409, [visit.id]]);
  await ask('reception', 'DELETE', `/bookings/${visit.id}`);
  const { body: made } = await ask('calendar', 'POST', '/bookings', standup);
  assert.deepEqual(made.map(({ starts }: any) => starts.slice(0, 10)), ['2099-01-05', '2099-01-12', '2099-01-19', '2099-01-26']);
});

test('bookings are listed page by page', async () => {
  await room(104);
  for (const hour of ['11', '09', '10']) await ask('reception', 'POST', '/bookings', { room: 104, title: hour, starts: at(`${hour}:00`), ends: at(`${hour}:30`) });
  const titles: string[][] = [];
  for (let after = ''; after !== 'null'; ) {
    const { body } = await ask('display', 'GET', `/rooms/104/bookings?limit=2${after && `&after=${after}`}`);
    titles.push(body.items.map(({ title }: any) => title));
    after = String(body.next);
  }
  assert.deepEqual(titles, [['09', '10'], ['11']]);
  assert.equal((await ask('display', 'GET', '/rooms/999/bookings')).status, 404);
  assert.match((await ask('display', 'GET', '/bookings.csv')).body, /^id,room,title,starts,ends,booked_by\r\n/);
});

test('a client has a limited number of bookings', async () => {
  await room(105);
  const weekly = (hour: string) => ask('reception', 'POST', '/bookings', { room: 105, title: 'All year', starts: at(`${hour}:00`), ends: at(`${hour}:30`), weeks: 52 });
  assert.equal((await weekly('08')).status, 201);
  const { status, body } = await weekly('09');
  assert.equal(status, 422);
  assert.match(body.detail, /100 bookings/);
});

test('what a request has wrong is said as a problem', async () => {
  const problem = async (method: string, path: string, body?: unknown) => {
    const { status, body: { detail } } = await ask('reception', method, path, body);
    return `${status} ${detail}`;
  };
  assert.match(await problem('PUT', '/rooms/7', { name: 'No seats' }), /^422 .*seats/);
  assert.match(await problem('GET', '/rooms/seven'), /^400 .*"room"/);
  assert.match(await problem('POST', '/bookings', { room: 7000, title: 'Nowhere', starts: at('09:00'), ends: at('10:00') }), /^409 /);
  assert.match(await problem('POST', '/bookings', { room: 103, title: 'Backwards', starts: at('10:00'), ends: at('09:00') }), /^4\d\d /);
});

test('bookings are told as they are made', async () => {
  await room(106);
  const { body } = await fetch(`${server.url}/events`, { headers: { 'x-api-key': 'display' } });
  const reader = body!.pipeThrough(new TextDecoderStream()).getReader();
  let heard = (await reader.read()).value;
  await ask('reception', 'POST', '/bookings', { room: 106, title: 'Surprise', starts: at('09:00'), ends: at('10:00') });
  while (!heard!.includes('Surprise')) heard += (await reader.read()).value!;
  assert.match(heard!, /data: \{"change" : "insert"/);
  await reader.cancel();
});

test('the OpenAPI document has the routes, their bodies and what they ask for', async () => {
  const { body } = await ask('display', 'GET', '/docs');
  assert.equal(body.info.title, 'Room bookings');
  assert.deepEqual(body.components.schemas.booking.required, ['room', 'title', 'starts', 'ends']);
  assert.deepEqual(body.paths['/bookings'].post.security, [{ clients: ['read', 'write'] }]);
});
