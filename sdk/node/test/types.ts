// Compiled, never run: what an editor knows about handlers. Each @ts-expect-error is a mistake that must be one.
import { HttpError, json, reply, router, text, type Context, type Handler, type HttpRequest } from 'forebay';
import { testing } from 'forebay/testing';

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

const response: Response = await testing(app).post('/users', { json: { name: 'a' }, deadlineMs: 100 });
response.status satisfies number;
