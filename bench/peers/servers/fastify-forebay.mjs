// Fastify with the plugin forebay/qoper8/fastify, of this repository: `node fastify-forebay.mjs MODE POOL_SIZE`.
import Fastify from 'fastify';
import plugin from '../../../sdk/node/dist/qoper8/fastify.js';

const [mode, poolSize] = process.argv.slice(2);
const app = Fastify({ logger: false });
const handlerPath = new URL('qoper8-handler.mjs', import.meta.url).pathname;
app.get('/local', async () => ({ status: 'success', result: 'local' }));
app.register(plugin, { mode, poolSize, workerHandlersByRoute: [{ method: 'get', url: '/helloworld', handlerPath }] });
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
