// A Hono application that knows nothing of Forebay.
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';

const app = new Hono().basePath('/hono');
app.get('/helloworld', (c) => c.json({ hello: 'world' }));
app.get('/users/:name', (c) => c.text(`Hello ${c.req.param('name')}`));
app.get('/events', (c) =>
  streamSSE(c, async (stream) => {
    for (let id = 1; id <= 3; id++) await stream.writeSSE({ data: `event ${id}`, id: String(id) });
  }));
export default app;
