import { contest, label } from '../contest.mjs';
import { findDatabase } from '../database.mjs';
import { forebay } from '../forebay.mjs';
import { light4jWith } from '../peers/light4j.mjs';
import { ratioRow, row } from '../rows.mjs';
import { present } from './present.mjs';
import { SINGLY, sections, worlds } from './techempower.mjs';

const CONNECTIONS = 64;
const POOLS = [2, 16, 64, 256];
const FEW = 1;
const MANY = 20;
const DRIVERS = ['waiting', 'asynchronous'];

const LOADS = DRIVERS.flatMap((driver) => [FEW, 10, MANY].map((queries) => ({ name: `${driver}, ${queries} queries`, driver, queries, answers: worlds(queries) })));
const loadOf = (driver, queries) => LOADS.find((load) => load.driver === driver && load.queries === queries);

const ASYNCHRONOUS = '/queries2';
/** Statements that wait for one another, and statements that the blocking driver sends together. */
const SINGLE = '/singly';
const TOGETHER = '/queries';

/**
 * The cost of a statement with a driver in a round, in microseconds of CPU time of the server and of the database; computed from how much
 * more a request with many statements costs than one with few.
 */
function perStatement(runs, driver) {
  const cost = (queries) => {
    const { cpu_us_per_request, database_us_per_request } = runs[label(loadOf(driver, queries), CONNECTIONS)];
    return { server: cpu_us_per_request, database: database_us_per_request };
  };
  const [few, many] = [cost(FEW), cost(MANY)];
  const slope = (of) => (many[of] - few[of]) / (MANY - FEW);
  return { server: slope('server'), database: slope('database') };
}

/**
 * The cost of statements in routes: the same routes with a blocking and a pipelined driver, with pools of all sizes, in Forebay and in
 * light-4j.
 */
export const sqlDrivers = {
  name: 'sql-drivers',
  title: `statements by a driver that waits and by one that does not, ${CONNECTIONS} connections`,
  needsForebay: true,
  async run(context) {
    const database = findDatabase();
    const ownWith = (name, pool, waiting) => ({
      ...forebay(context.binary, name, { more: `${sections(database, { blocking: pool })}${SINGLY}` }),
      paths: Object.fromEntries(LOADS.map((load) => [load.name, `${load.driver === 'waiting' ? waiting : ASYNCHRONOUS}?queries=${load.queries}`])),
    });
    const own = [...POOLS.map((pool) => ownWith(`Forebay, pool ${pool}`, pool, SINGLE)), ownWith('Forebay, pool 16, together', 16, TOGETHER)];
    const peers = POOLS.map((pool) => light4jWith(pool, LOADS, database, { name: `light-4j, pool ${pool}` }));
    const unpipelined = light4jWith(16, LOADS, database, { name: 'light-4j, pool 16, not pipelined', pipelined: false });
    const unprepared = light4jWith(16, LOADS, database, { name: 'light-4j, pool 16, not prepared', prepared: false });
    const { there, skipped } = present([...peers, unpipelined, unprepared]);
    const contenders = [...own, ...there];
    const rounds = await contest(context, contenders, LOADS, [CONNECTIONS], database.pid);
    const rows = contenders.flatMap(({ name }) => [
      ...[10, MANY].map((queries) => {
        const pairs = rounds.map((round) => ({ a: round[name][label(loadOf('asynchronous', queries), CONNECTIONS)], b: round[name][label(loadOf('waiting', queries), CONNECTIONS)] }));
        return ratioRow({ pairs }, 'requests_per_s', { what: `requests/s, asynchronous : waiting, ${queries} queries, ${name}` });
      }),
      ...DRIVERS.flatMap((driver) =>
        ['server', 'database'].map((of) => row({ what: `CPU per statement, ${of}, ${driver}, ${name}`, unit: 'us', samples: rounds.map((round) => perStatement(round[name], driver)[of]) })),
      ),
    ]);
    return { contest: rounds, rows, skipped };
  },
};
