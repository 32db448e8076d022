// The routes of the TechEmpower benchmarks in Bun.serve with Bun.sql, one process per core. FOREBAY_PG_URL is the address of the database.
import { SQL } from 'bun';
import { availableParallelism } from 'node:os';
import { asked, differentLots, lot, lots, page } from './routes.mjs';

const CONNECTIONS_MAX = 64; // of all processes together

const processes = availableParallelism();
const sql = new SQL(process.env.FOREBAY_PG_URL, { max: CONNECTIONS_MAX / processes });
const html = { headers: { 'content-type': 'text/html; charset=utf-8' } };

const world = async (id) => (await sql`select id, randomnumber as "randomNumber" from world where id = ${id}`)[0];
const count = (request) => asked(new URL(request.url).searchParams.get('queries'));

const server = Bun.serve({
  hostname: '127.0.0.1',
  port: Number(process.argv[2] ?? 0),
  reusePort: true,
  routes: {
    '/json': () => Response.json({ message: 'Hello, World!' }),
    '/plaintext': () => new Response('Hello, World!'),
    '/db': async () => Response.json(await world(lot())),
    '/queries': async (request) => Response.json(await Promise.all(lots(count(request)).map(world))),
    '/updates': async (request) => {
      const ids = differentLots(count(request));
      const worlds = await Promise.all(ids.map(world));
      for (const row of worlds) row.randomNumber = lot();
      const numbers = worlds.map(({ randomNumber }) => randomNumber);
      const [of, to] = [sql.array(ids, 'INT'), sql.array(numbers, 'INT')];
      await sql`update world as w set randomnumber = v.number from unnest(${of}, ${to}) as v (id, number) where w.id = v.id`;
      return Response.json(worlds);
    },
    '/fortunes': async () => new Response(page(await sql`select id, message from fortune`), html),
  },
});
if (process.argv[2] === undefined) {
  for (let started = 1; started < processes; started++) Bun.spawn([process.execPath, import.meta.path, String(server.port)], { stdio: ['ignore', 'inherit', 'inherit'] });
  console.log(`listening on http://127.0.0.1:${server.port}`);
}
