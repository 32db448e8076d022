// The routes of the TechEmpower benchmarks in Fastify, one process per core. `fastify.mjs postgres` or `fastify.mjs pg` selects the client;
// FOREBAY_PG_URL is the address of the database.
import cluster from 'node:cluster';
import { availableParallelism } from 'node:os';
import { asked, differentLots, lot, lots, page } from './routes.mjs';

const CONNECTIONS_MAX = 64; // of all processes together

const processes = availableParallelism();

if (cluster.isPrimary) {
  const workers = Array.from({ length: processes }, () => cluster.fork());
  const addresses = await Promise.all(workers.map((worker) => new Promise((resolve) => worker.once('message', resolve))));
  console.log(`listening on ${addresses[0]}`);
} else {
  const { default: Fastify } = await import('fastify');
  const { connect } = await import(`./${process.argv[2]}.mjs`);
  const database = await connect(process.env.FOREBAY_PG_URL, CONNECTIONS_MAX / processes);
  const app = Fastify({ logger: false });
  app.get('/json', async () => ({ message: 'Hello, World!' }));
  app.get('/plaintext', async (_, reply) => reply.type('text/plain').send('Hello, World!'));
  app.get('/db', () => database.world(lot()));
  app.get('/queries', ({ query }) => Promise.all(lots(asked(query.queries)).map(database.world)));
  app.get('/updates', async ({ query }) => {
    const ids = differentLots(asked(query.queries));
    const worlds = await Promise.all(ids.map(database.world));
    for (const world of worlds) world.randomNumber = lot();
    await database.update(ids, worlds.map(({ randomNumber }) => randomNumber));
    return worlds;
  });
  app.get('/fortunes', async (_, reply) => reply.type('text/html; charset=utf-8').send(page(await database.fortunes())));
  // In a cluster, all processes that listen on the same port number share the socket, even for number 0.
  process.send(await app.listen({ host: '127.0.0.1', port: 0 }));
}
