// WebSockets and event streams of many kinds.
import { setTimeout } from 'node:timers/promises';
import { broadcast, router, sse, websocket } from 'forebay';

const app = router();
const closed = [];
const close = (_, code, reason) => void closed.push([code, reason]);

app.get('/pid', () => process.pid);
app.get('/closed', () => closed);
app.get('/die', () => process.kill(process.pid, 'SIGKILL'));

app.get('/echo', () => websocket({ message: (socket, message) => socket.send(message), close }));
app.get('/hello', (request) =>
  websocket(
    { open: (socket) => socket.send(JSON.stringify({ pid: process.pid, data: socket.data, path: socket.request.path })), close },
    { data: request.query.get('data'), protocol: request.query.get('protocol') ?? undefined, headers: { 'set-cookie': 'a=b' } },
  ));
app.get('/close/:code', (request) => websocket({ message: (socket) => socket.close(Number(request.params.code), 'as told'), close }));
app.get('/throw', () => websocket({ message: async () => Promise.reject(new Error('on purpose')), close }));
app.get('/send/:bytes', (request) => websocket({ open: (socket) => socket.send('x'.repeat(Number(request.params.bytes))), close }));

// Each message is answered only when the one before is.
app.get('/slowly', () =>
  websocket({
    async message(socket, message) {
      await setTimeout(message === 'first' ? 50 : 0);
      socket.send(message);
    },
  }));

app.get('/room/:room', ({ params }) =>
  websocket({
    open(socket) {
      socket.join(params.room);
      socket.send(`joined ${process.pid}`);
    },
    message(socket, message) {
      if (message === 'leave') socket.leave(params.room);
      else socket.broadcast(params.room, message);
      socket.send('done');
    },
    close,
  }));
app.get('/rooms/:count', ({ params }) =>
  websocket({
    open(socket) {
      for (let room = 0; room < Number(params.count); room++) socket.join(`room ${room}`);
      socket.send('joined');
    },
    close,
  }));
app.post('/room/:room', async (request) => {
  broadcast(request.params.room, await request.bytes());
  return null;
});
let open = 0;
let release;
const released = new Promise((resolve) => (release = resolve));
app.get('/open', () => open);
app.post('/release', () => void release());
app.get('/events', (request, ctx) =>
  sse(async function* () {
    open++;
    const left = new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
    try {
      yield { event: 'start', data: { last: request.headers.get('last-event-id') }, id: '1', retry: 500 };
      await Promise.race([released, left]);
      yield 'two\nlines';
    } finally {
      open--;
    }
  }));
app.get('/silence', () => sse(async function* () { await new Promise(() => {}); }, { keepAlive: 20, status: 201, headers: { 'x-own': 'yes' } }));
app.get('/broken', () => sse([{ data: 'fine' }, { event: 'not\nfine' }]));
export default app;
