// Bun.serve answering in its own process, with its `routes`. The handlers run for every request, like a pool's handler.
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  routes: {
    '/local': () => Response.json({ status: 'success', result: 'local' }),
    '/helloworld': () => Response.json({ hello: 'world' }),
  },
  fetch: () => new Response('not found', { status: 404 }),
});
console.log(`listening on http://127.0.0.1:${server.port}`);
