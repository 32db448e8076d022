// A Fastify application that knows nothing of Forebay.
import Fastify from 'fastify';

const app = Fastify();
app.register(
  async (routes) => {
    routes.get('/helloworld', async () => ({ hello: 'world' }));
    routes.get('/users/:name', async (request) => `Hello ${request.params.name}`);
    const schema = { body: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } } };
    routes.post('/users', { schema }, async (request, reply) => reply.code(201).send(request.body));
  },
  { prefix: '/fastify' },
);
await app.listen({ port: 3000 });
