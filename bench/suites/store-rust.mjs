import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { watchOthers } from '../measure.mjs';
import { runToEnd } from '../processes.mjs';
import { atLeast, ELSEWHERE_SHARE_MAX, row } from '../rows.mjs';

/** The name of the measuring program, next to Forebay's binary. */
const RATES = 'examples/rates';

/** The store in one Rust process, compared with its underlying engine. */
export const storeRust = {
  name: 'store-rust',
  title: 'the store in one Rust process, beside raw libmdbx; keys ("data", i / 1000, i % 1000, "name")',
  needsForebay: true,
  async run(context) {
    const program = join(dirname(context.binary), RATES);
    if (!existsSync(program)) throw new Error(`${program} not found: cargo build --profile dist -p forebay-store --example rates`);
    const runs = [];
    for (let number = 0; number < context.repeats; number += 1) {
      context.progress(`run ${number + 1} of ${context.repeats}`);
      const elsewhereShare = watchOthers();
      const printed = await runToEnd('rates', program, [String(context.nodes), '1'], { env: { PATH: process.env.PATH } });
      runs.push({ ...JSON.parse(printed), elsewhere_share: elsewhereShare() });
    }
    const notes = runs.some(({ elsewhere_share }) => elsewhere_share > ELSEWHERE_SHARE_MAX) ? ['(machine not quiet)'] : [];
    const millions = (what, name, bar) => row({ what, unit: 'million/s', bar, notes, samples: runs.map((run) => run[name] / 1e6) });
    return {
      runs,
      rows: [
        row({ what: 'leaf get : raw libmdbx get', bar: atLeast(0.8), notes, samples: runs.map((run) => run.leaf_get / run.engine_get) }),
        millions('walk over nodes with their values', 'iterate_nodes', atLeast(10)),
        millions('leaf get', 'leaf_get'),
        millions('leaf get, each in a snapshot of its own', 'leaf_get_each_its_own_snapshot'),
        millions('raw libmdbx get', 'engine_get'),
        millions('raw libmdbx walk', 'engine_iterate'),
        millions('leaf set, 1,000 in a transaction', 'leaf_set_in_transaction'),
        millions('document set, 1,000 in a transaction', 'document_set_in_transaction'),
        millions('document get', 'document_get'),
      ],
    };
  },
};
