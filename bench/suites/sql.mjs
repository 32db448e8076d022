import { contest, pairOf } from '../contest.mjs';
import { findDatabase } from '../database.mjs';
import { forebay } from '../forebay.mjs';
import { axum, bunSql, fastifyWith, light4jWith } from '../peers/tfb.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { present } from './present.mjs';
import { sections, worlds } from './techempower.mjs';

/** Connections of a blocking pool, the same for both sides. */
const BLOCKING_CONNECTIONS = 16;

const LOADS = [
  { name: 'db', answers: /^\{"id":\d+,"randomNumber":\d+\}$/ },
  { name: 'one row', answers: /^\{"id":4711,"randomNumber":\d+\}$/ },
  { name: 'queries=10', driver: 'asynchronous', queries: 10, answers: worlds(10) },
  { name: 'queries=20', driver: 'asynchronous', queries: 20, answers: worlds(20) },
  { name: 'updates=20', answers: worlds(20) },
  { name: 'fortunes', answers: /(&lt;script&gt;|&#60;script&#62;).*<td>Additional fortune added at request time\.<\/td>/ },
  { name: 'blocking queries=10', driver: 'waiting', queries: 10, answers: worlds(10) },
  { name: 'blocking queries=20', driver: 'waiting', queries: 20, answers: worlds(20) },
];

const PATHS = {
  db: '/db',
  'one row': '/worlds/4711',
  'queries=10': '/queries2?queries=10',
  'queries=20': '/queries2?queries=20',
  'updates=20': '/updates?queries=20',
  fortunes: '/fortunes',
  'blocking queries=10': '/queries?queries=10',
  'blocking queries=20': '/queries?queries=20',
};

/** The targets by load: the peer, and the minimum ratio. */
const BARS = [
  ['one row', 'axum', atLeast(0.95)],
  ['db', 'axum', null],
  ['queries=10', 'Fastify, postgres', atLeast(2)],
  ['queries=10', 'axum', atLeast(0.75)],
  ['queries=20', 'Fastify, postgres', atLeast(2)],
  ['queries=20', 'axum', atLeast(0.75)],
  ['queries=20', 'Bun.sql', null],
  ['updates=20', 'axum', atLeast(0.9)],
  ['updates=20', 'Fastify, postgres', null],
  ['fortunes', 'Fastify, postgres', atLeast(2)],
  ['fortunes', 'Fastify, pg', null],
  ['fortunes', 'axum', null],
  ['blocking queries=10', 'light-4j', atLeast(1.3)],
  ['blocking queries=20', 'light-4j', atLeast(1.3)],
];

/** The routes of examples/techempower compared with other implementations, all on one PostgreSQL server. */
export const sql = {
  name: 'sql',
  title: 'the routes of the TechEmpower benchmarks on PostgreSQL',
  needsForebay: true,
  async run(context) {
    const database = findDatabase();
    const own = { ...forebay(context.binary, 'Forebay', { more: sections(database) }), paths: PATHS };
    const all = [axum(database), fastifyWith('postgres', database), fastifyWith('pg', database), bunSql(database), light4jWith(BLOCKING_CONNECTIONS, LOADS, database)];
    const { there, skipped } = present(all);
    const rounds = await contest(context, [own, ...there], LOADS, context.connections, database.pid);
    const isThere = ([, peer]) => there.some(({ name }) => name === peer);
    const rows = context.connections.flatMap((connections) =>
      BARS.filter(isThere).map(([name, peer, bar]) => {
        const load = LOADS.find((load) => load.name === name);
        return ratioRow(pairOf(rounds, load, connections, 'Forebay', peer), 'requests_per_s', { what: `requests/s, ${name}, ${connections} connections : ${peer}`, bar });
      }),
    );
    return { contest: rounds, rows, skipped };
  },
};
