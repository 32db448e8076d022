/** The `console` of rules: lines go to the log of their workflow. Keeps no state, because rules of other runs follow in the same engine. */
import { sleep } from '../sleep.js';
import { host } from '../script/host.js';
import { step } from '../script/pending-operations.js';
import { format } from '../script/web/console.js';

/** Longer lines are cut, in characters. */
const LINE_MAX = 65_536;

const write =
  (level: number) =>
  (...values: readonly unknown[]): void => {
    // Most lines are a single string.
    const [first] = values;
    const text = values.length === 1 && typeof first === 'string' ? first : format(values);
    host.ruleLog(step.call, step.rule, level, text.length > LINE_MAX ? `${text.slice(0, LINE_MAX)}... (cut: it had ${text.length} characters)` : text);
  };

const error = write(3);

export const console = {
  debug: write(0),
  trace: write(0),
  log: write(1),
  info: write(1),
  dir: write(1),
  warn: write(2),
  error,
  assert(condition: unknown, ...values: readonly unknown[]): void {
    if (!condition) error('Assertion failed', ...values);
  },
  /** Resolves after this many milliseconds, as in GoRules' functions. */
  sleep: (ms: number): Promise<void> => sleep(ms),
};
