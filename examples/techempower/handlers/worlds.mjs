// The tests that ask for rows of the table `world`: /queries on the source whose driver blocks, /queries2 and /updates on the one that pipelines.
import { router } from 'forebay';
import { sql } from 'forebay/sql';

import { Cache } from './cache.mjs';

const { blocking, main } = sql;
const WORLDS = 10_000;
const READ = 'select id, randomNumber as "randomNumber" from world where id = $1';
const CACHED = 'select id, randomNumber as "randomNumber" from world where id = any ($1)';
// Rows are locked in the order of the parameters, which is that of their ids.
const WRITE = 'update world as w set randomNumber = v.number from unnest($1::int4[], $2::int4[]) as v (id, number) where w.id = v.id';
const DEADLOCK = '40P01';
const TRIES = 5;

const lot = () => 1 + Math.floor(Math.random() * WORLDS);

/** How many rows a parameter asks for: from 1 to 500, and 1 where it is no integer. */
function asked(text) {
  const count = /^-?\d+$/.test(text ?? '') ? Number(text) : 1;
  return Math.min(Math.max(count, 1), 500);
}

/** Reads rows by their ids, each by a statement of its own. */
async function read(database, ids) {
  const results = await database.pipeline(ids.map((id) => [READ, [id]]));
  return results.map((rows) => rows[0]);
}

const lots = (count) => Array.from({ length: count }, lot);

/** Ids that differ, in their order. */
function differentLots(count) {
  const ids = new Set();
  while (ids.size < count) ids.add(lot());
  // Of integers alone: they need no function that compares them.
  return [...Int32Array.from(ids).sort()];
}

async function write(ids, numbers) {
  for (let tries = 1; ; tries++) {
    try {
      return await main.query(WRITE, [ids, numbers]);
    } catch (error) {
      if (error.code !== DEADLOCK || tries === TRIES) throw error;
    }
  }
}

// A row stays there until others have pushed it out: all of them find room.
const cache = new Cache(WORLDS, async (ids) => {
  const worlds = await main.query(CACHED, [ids]);
  return worlds.map((world) => [world.id, world]);
});

const app = router();
app.get('/queries', ({ query }) => read(blocking, lots(asked(query.get('queries')))));
app.get('/queries2', ({ query }) => read(main, lots(asked(query.get('queries')))));
app.get('/updates', async ({ query }) => {
  const ids = differentLots(asked(query.get('queries')));
  const worlds = await read(main, ids);
  const numbers = worlds.map((world) => (world.randomNumber = lot()));
  await write(ids, numbers);
  return worlds;
});
app.get('/cached-queries', ({ query }) => cache.get(lots(asked(query.get('count')))));

export default app;
