import { forebay } from '../forebay.mjs';
import { atLeast, atMost, ratioRow, row } from '../rows.mjs';
import { MODES, accounts, climb, pairRungs } from '../rungs.mjs';
import { FILES, RUNGS, SECTIONS, SEED } from './articles.mjs';

const CONNECTIONS = 20;

/** Minimum throughput of rungs, relative to that of a record by its reference. */
const THROUGHPUT = [
  ['script', atLeast(0.75)],
  ['script, own read', null],
  ['framed stdio', atLeast(0.5)],
  ['JSONL', atLeast(0.35)],
  ['WABuR', null],
  ['Node pool', null],
  ['Bun pool', null],
];

/** One record by every kind of route, in one server: from the store, and by the same controller wherever it can run. */
export const ladder = {
  name: 'ladder',
  title: `one record by every kind of route, ${CONNECTIONS} connections, kept open or closed after each answer`,
  needsForebay: true,
  async run(context) {
    const side = forebay(context.binary, 'Forebay', { more: SECTIONS, seed: SEED, files: FILES });
    const rounds = await climb(context, side, RUNGS, CONNECTIONS);
    const rows = MODES.flatMap((mode) => {
      const beside = (name, base) => pairRungs(rounds, mode, name, base);
      return [
        ratioRow(beside('record', 'memory'), 'cpu_us_per_request', { what: `CPU per request, record : memory, ${mode}`, bar: atMost(1.15) }),
        ...THROUGHPUT.map(([name, bar]) => ratioRow(beside(name, 'record'), 'requests_per_s', { what: `requests/s, ${name} : record, ${mode}`, bar })),
      ];
    });
    const { sent, lost, extra } = accounts(rounds, RUNGS);
    rows.push(
      row({ what: `requests of ${sent.toLocaleString('en')} that were not answered right`, bar: atMost(0), samples: [lost] }),
      row({ what: "by which the server's own counts differ", bar: atMost(0), samples: [extra] }),
    );
    return { rows, ladder: { connections: CONNECTIONS, rungs: RUNGS.map(({ name, path }) => ({ name, path })), rounds } };
  },
};
