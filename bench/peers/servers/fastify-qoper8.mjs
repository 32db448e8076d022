// Fastify in front of a QOper8 pool of child processes: `node fastify-qoper8.mjs POOL_SIZE`.
// The request becomes a message with the same members as with the qoper8-fastify plugin (see ../qoper8.mjs).
import Fastify from 'fastify';
import { QOper8 } from 'qoper8-cp';

const pool = new QOper8({
  poolSize: Number(process.argv[2]),
  handlersByMessageType: new Map([['helloworld', { module: new URL('qoper8-handler.mjs', import.meta.url).pathname }]]),
});

const app = Fastify({ logger: false });
app.get('/local', async () => ({ status: 'success', result: 'local' }));
app.get('/helloworld', (request, reply) => {
  const { method, query, body, params, headers, ip, ips, hostname, protocol, url } = request;
  const data = { method, query, body, params, headers, ip, ips, hostname, protocol, url, routerPath: '/helloworld' };
  pool.message({ type: 'helloworld', data }, ({ qoper8, ...answer }) => reply.send(answer));
});
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
