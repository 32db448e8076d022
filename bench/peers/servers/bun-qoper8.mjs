// Bun.serve in front of a QOper8 pool of child processes, with a route that it answers itself: `bun bun-qoper8.mjs POOL_SIZE`.
import { QOper8 } from 'qoper8-cp';

const pool = new QOper8({
  poolSize: Number(process.argv[2]),
  handlersByMessageType: new Map([['helloworld', { module: new URL('qoper8-handler.mjs', import.meta.url).pathname }]]),
});

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  routes: { '/local': () => Response.json({ status: 'success', result: 'local' }) },
  fetch: (request) =>
    new Promise((answer) => {
      const { method, url } = request;
      pool.message({ type: 'helloworld', data: { method, url } }, ({ qoper8, ...reply }) => answer(Response.json(reply)));
    }),
});
console.log(`listening on http://127.0.0.1:${server.port}`);
