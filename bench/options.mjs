// The command line.

import { parseArgs } from 'node:util';

/** A problem that the user has to fix before anything can be measured: a wrong option, or something that is not installed. */
export class SetupError extends Error {}

/**
 * The amounts to be measured. `pairs` of comparisons, `repeats` of everything else; times in
 * seconds; null leaves a part out. `records` and `nodes` are the contents of stores in one Node process and in Rust, `rows` the number of
 * records for TQL statements.
 */
const FULL = { pairs: 10, warmup_s: 2, seconds: 4, repeats: 5, openLoop_s: 15, memoryRequests: 10_000_000, records: 100_000, nodes: 1_000_000, rows: 1_000_000 };
const QUICK = { pairs: 3, warmup_s: 1, seconds: 2, repeats: 2, openLoop_s: 5, memoryRequests: null, records: 20_000, nodes: 200_000, rows: 1_000_000 };

export const HELP = `Measures Forebay beside its peers and says which bars of the project hold.

  node bench/run.mjs [--quick] [--pairs N] [--suite NAME]... [--json FILE] [--forebay PATH]

  --quick          ${QUICK.pairs} pairs instead of ${FULL.pairs}, shorter runs: to see that it works, not to quote
  --pairs N        so many pairs: fewer take less time, more make intervals narrower
  --suite NAME     only this suite; may be repeated. Example: --suite mixed --suite idle
  --json FILE      where the result goes; default bench/results/TIME.json
  --forebay PATH   the binary to measure; default target/dist/forebay
  --help           this text

Exit code: 0 all bars hold, 1 some do not or could not be measured, 2 wrong usage or something is missing, 130 interrupted.
`;

/** Parses the options and checks them against the names of the suites; throws a SetupError that says what is accepted. */
export function parseOptions(args, suiteNames) {
  const values = parse(args);
  const unknown = values.suite.find((name) => !suiteNames.includes(name));
  if (unknown !== undefined) throw new SetupError(`no suite "${unknown}"; there are: ${suiteNames.join(', ')}`);
  const amounts = { ...(values.quick ? QUICK : FULL) };
  if (values.pairs !== undefined) amounts.pairs = countOf('--pairs', values.pairs);
  return { ...values, amounts, suites: values.suite.length > 0 ? values.suite : suiteNames };
}

function countOf(option, text) {
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new SetupError(`${option} is a whole number from 1 on, not "${text}"`);
}

function parse(args) {
  try {
    return parseArgs({
      args,
      options: {
        quick: { type: 'boolean', default: false },
        pairs: { type: 'string' },
        suite: { type: 'string', multiple: true, default: [] },
        json: { type: 'string' },
        forebay: { type: 'string' },
        help: { type: 'boolean', default: false },
      },
    }).values;
  } catch (error) {
    throw new SetupError(`${error.message}\n\n${HELP}`);
  }
}
