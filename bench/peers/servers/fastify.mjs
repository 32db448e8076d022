// Fastify answering in its own process.
import Fastify from 'fastify';

const app = Fastify({ logger: false });
app.get('/local', async () => ({ status: 'success', result: 'local' }));
app.get('/helloworld', async () => ({ hello: 'world' }));
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
