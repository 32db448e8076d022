// Compiled, never run: the types that an editor shows for handlers. Each @ts-expect-error marks code that must not compile.
import { HttpError, StoreError, json, reply, router, store, text, type Context, type Handler, type HttpRequest } from 'forebay';
import Fastify from 'fastify';
import { glsDB } from 'forebay/glsdb';
import { mcursor, mglobal, server } from 'forebay/mg-dbx';
import { Router as MgRouter } from 'forebay/mgweb';
import { CrashedError, DeadlineError, Pool, PoolError, move, type MessageContext } from 'forebay/pool';
import { DurableQueue, type Enqueued } from 'forebay/pool/durable';
import { QOper8, type QOper8Handler } from 'forebay/qoper8';
import { benchmark } from 'forebay/qoper8/benchmark';
import qoper8Plugin from 'forebay/qoper8/fastify';
import { qoper8Handlers } from 'forebay/qoper8/handlers';
import { rest, type RestKind } from 'forebay/records';
import { sql } from 'forebay/sql';
import { open, type JsonValue, type Store, type StoreErrorCode, type StoreNode } from 'forebay/store';
import { serve, testing, type TestServer } from 'forebay/testing';

declare module 'forebay' {
  interface WorkerState {
    users: Map<string, { name: string }>;
  }
}

const app = router();

app.get('/users/:id/files/*rest', ({ params }) => {
  const both: string = params.id + params.rest;
  // @ts-expect-error the pattern has no such parameter
  return both + params.name;
});

app.get('/static/*', ({ params }) => params['*'].length);

app.post('/users', async (request, ctx) => {
  const user = await request.json<{ name: string }>();
  // @ts-expect-error the type was given
  user.email;
  ctx.state.users.set(user.name, user);
  const left: number = ctx.remaining();
  const until: number | undefined = ctx.deadline?.getTime();
  ctx.signal.throwIfAborted();
  ctx.log.info('made', { left, until });
  // @ts-expect-error contexts are read-only
  ctx.deadline = null;
  return json(user, { status: 201, headers: { location: `/users/${user.name}` } });
});

app.get('/unknown-body', async (request) => {
  const value = await request.json();
  // @ts-expect-error an unchecked body is unknown
  return value.name;
});

// @ts-expect-error a handler is a function
app.get('/x', { hello: 'world' });
// @ts-expect-error a status is a number
text('x', { status: '200' });
// @ts-expect-error the internals of a reply are not part of it
reply(null).kind;

const handler: Handler = (request: HttpRequest, ctx: Context) => {
  const tags: string[] = request.query.getAll('tag');
  const agent: string | null = request.headers.get('user-agent');
  if (agent === null) throw new HttpError(400, 'no agent', { extra: { tags } });
  return { agent, worker: ctx.worker.id };
};
export default handler;

const users = await sql['main']!.query<{ id: number; name: string }>('select id, name from users');
const ids: number[] = users.map(({ id }) => id + users.count);
const first: string | undefined = (await sql['main']!<{ name: string }>`select name from users`)[0]?.name;
// @ts-expect-error a row has no such column
users[0]?.email;
const started: TestServer = await serve(['-c', 'forebay.toml'], { env: { IDS: ids.join(), FIRST: first ?? '' } });
await started.stop();
const response: Response = await testing(app).post('/users', { json: { name: 'a' }, deadlineMs: 100 });
response.status satisfies number;

declare module 'forebay' {
  interface WorkerState {
    people: StoreNode;
  }
}

const own: Store = open('data', { durability: 'group', readOnly: false });
const person = own.node('Person', 'data', 7n, 0.5);
const name: string | undefined = person.get<string>('firstName');
person.set('tags', 0, { any: [name, null, 1n] });
person.value = { firstName: 'Ada' };
const sum: number = person.increment();
const large: bigint = person.increment(1n);
const next: string | undefined = person.next(sum);
for (const child of person) child.delete() satisfies boolean;
for (const [key, value] of person.entries<{ firstName: string }>({ from: 1, prefix: 'a', reverse: true })) key + value.firstName;
for (const [path, leaf] of person.leaves()) path.join() + JSON.stringify(leaf satisfies JsonValue);
const made: { id: bigint } = store.transaction(() => ({ id: large }), { durability: 'sync' });
const state: 0 | 1 | 10 | 11 = store.node('Person').defined();
// @ts-expect-error a subscript is no object
store.get('Person', {});
// @ts-expect-error there is no such durability
store.transaction(() => made, { durability: 'never' });
// @ts-expect-error there is no such bound
person.keys({ start: next });
// @ts-expect-error paths do not change
person.path.push('x');
try {
  store.flush();
} catch (error) {
  if (error instanceof StoreError && error.code === 'not_flushed') error.code satisfies StoreErrorCode;
  // @ts-expect-error no error has this code
  if (error instanceof StoreError && error.code === 'nothing') state;
}

const mgweb = new MgRouter({ logging: true });
mgweb.register('mgw-router/glsdb');
// @ts-expect-error there is no such plugin
mgweb.register('mgw-router/redis');
mgweb.get('/user/:id', async (Request, ctx) => {
  const user = new ctx.glsdb.node('Person.data').$(Request.params['id']!);
  return { payload: { data: user.document, text: ctx.mgdbx.use('Person').get('data', 1) }, status: 200 };
});
// @ts-expect-error a handler returns an object
mgweb.get('/user', () => 'text');
export const mgHandler: Handler = mgweb.handler();

const db = new server();
db.open({ type: 'Forebay', path: 'data' });
const found: string | null = new mglobal(db, 'Person', 1).get('firstName');
const cursor = new mcursor(db, { global: 'Person', key: [''] }, { multilevel: true, getdata: true });
cursor.next() satisfies unknown;
const gls = new glsDB({ maxArrayDigits: 8 });
gls.open();
new gls.node('Person.1').forEachChildNode({ from: 1, to: found ?? '' }, (node) => node.key !== 'x');

const article: RestKind = {
  read: true,
  async create(call) {
    const made: number = (await call.usual({ ...call.data, by: call.request.id })).status;
    return { made, of: call.kind, ref: call.ref };
  },
  handle: ({ path, ctx }) => ({ path: path.join('/'), left: ctx.remaining() }),
  // @ts-expect-error there is no such method
  change: true,
};
export const restHandler: Handler = rest({ kinds: { Article: article }, others: { read: true }, compat: 'wabur', model: 'server' });
// @ts-expect-error there is no such model
rest({ model: 'pipe' });

const resizers = {
  resize: async (message: { file: string; width: number }, ctx: MessageContext) => ({ small: message.file, by: ctx.worker.id }),
  count: (message: readonly string[]) => message.length,
};
const workers = new Pool<typeof resizers>({ handlers: { resize: './resize.mjs', count: { file: './count.mjs', concurrency: 2 } }, size: { min: 1, max: 4 }, retry: { attempts: 2, after: ['crash'] } });
export async function resized(): Promise<number> {
  const { small, by } = await workers.run({ file: 'a.png', width: 100 }, { type: 'resize', deadline: { queue: 500 }, affinity: 'a' });
  const length: number = await workers.run(['x'], { type: 'count' });
  // @ts-expect-error the reply is an object
  const wrong: string = await workers.run({ file: 'a.png', width: 100 }, { type: 'resize' });
  // @ts-expect-error a message of this type has a width
  await workers.run({ file: 'a.png' }, { type: 'resize' });
  // @ts-expect-error there is no such type
  await workers.run({ file: 'a.png' }, { type: 'shrink' });
  const stream = workers.stream(['x'], { type: 'count', signal: AbortSignal.timeout(1_000) });
  for await (const part of stream) part satisfies unknown;
  try {
    return small.length + by + length + wrong.length + (await stream.result);
  } catch (error) {
    if (error instanceof DeadlineError) return error.limitMs satisfies number;
    if (error instanceof CrashedError) error.stderr satisfies readonly string[];
    if (error instanceof PoolError && error.code === 'queue_full') return workers.queueSize;
    // @ts-expect-error no error has this code
    if (error instanceof PoolError && error.code === 'nothing') return 0;
    throw error;
  }
}
workers.on('workerStop', ({ cause, exitCode }) => cause === 'crashed' && exitCode);
workers.on('deadLetter', ({ type, message, attempts }) => [type, message, attempts]);
// @ts-expect-error there is no such event
workers.on('finished', () => {});
// @ts-expect-error there is no such option
new Pool({ handlers: {}, poolSize: 4 });
const untyped = new Pool({ handlers: { any: './any.mjs' }, kind: 'thread' });
untyped.run({ whatever: 1 }, { type: 'any' }) satisfies Promise<unknown>;
untyped.stats().run.p99_9 satisfies number;
export const mover = (bytes: number): { buffer: ArrayBuffer } => {
  const buffer = new ArrayBuffer(bytes);
  return move({ buffer }, [buffer]);
};
const kept = new DurableQueue(workers, { store: 'data' });
export const enqueued: Promise<Enqueued<number>> = kept.enqueue(['x'], { type: 'count', key: 'x' });
// @ts-expect-error a message of this type has a width
kept.enqueue({ file: 'a.png' }, { type: 'resize' });
for (const { id, error } of kept.deadLetters()) if (error.code === 'crashed') kept.retryDeadLetter(id) satisfies Promise<Enqueued>;

const queue = new QOper8({
  poolSize: 2,
  handlersByMessageType: new Map([['resize', { module: 'resize.mjs' }], ['text', { text: 'finished({})' }]] as const),
  QBackup: { add: (id) => id.toFixed(), delete: async (id) => void id },
  handlerTimeout: false,
  kind: 'thread',
  pool: { size: { min: 1 }, killGrace: 100 },
});
queue.message({ type: 'resize', data: 7 }, (reply, workerId) => [reply.width, workerId?.toFixed()]);
// @ts-expect-error a message has a type
void queue.send({ data: 7 });
// @ts-expect-error workers are of two kinds
new QOper8({ kind: 'webworker' });
void queue.getStats().then(({ main_process, child_processes }) => [main_process.queue_length, child_processes?.['0']?.memory.rss]);
const written: QOper8Handler = function (message, finished) {
  this['extra'] = this.getMessageCount() + message.n;
  this.cache.set('key', { at: Date.now() });
  finished({ id: this.id });
  // @ts-expect-error the id is a number
  this.id = 'one';
};
qoper8Handlers({ written });
Fastify().register(qoper8Plugin, { mode: 'child_process', workerHandlersByRoute: [{ method: 'get', url: '/x', handlerPath: 'x.mjs', timeout: 100 }] });
// @ts-expect-error a route has a handler
Fastify().register(qoper8Plugin, { workerHandlersByRoute: [{ method: 'get', url: '/x' }] });
void benchmark({ poolSize: 2, delay: 10, message: { type: 'written', n: 1 } }).then(({ rate, workers: byWorker }) => rate + byWorker.length);
