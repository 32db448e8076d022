/** `require` for rules. Modules are instantiated anew for each run; those of the SDK itself have no state. */
import { host } from '../script/host.js';
import { step } from '../script/pending-operations.js';

/** Loaded modules by path. */
const loaded = new Map<string, { exports: unknown }>();
/** Modules of the SDK, which a file of the same name replaces. */
export const own: Record<'http' | 'zen', object> = { http: {}, zen: {} };

/** The second argument of functions, as GoRules' first version of them has it. A library is loaded when a function takes it. */
export const libraries = {
  get dayjs(): unknown {
    return require('dayjs');
  },
  get moment(): unknown {
    return require('dayjs');
  },
  get Big(): unknown {
    return require('big.js');
  },
  get env(): object {
    return {};
  },
};

/** Returns the exports of a module in the folder `modules`. The module runs when the run first requires it. */
export function require(name: unknown): unknown {
  return requireFrom('', name);
}

function requireFrom(from: string, name: unknown): unknown {
  if (typeof name !== 'string') throw new TypeError(`require takes the name of a module, not ${name === null ? 'null' : typeof name}`);
  const found = host.ruleModule(step.call, from, name);
  if (found.length === 1) return own[found[0]];
  const [path, load] = found;
  const known = loaded.get(path);
  if (known !== undefined) return known.exports;
  const module = { exports: {} as unknown };
  // In a circular `require`, a module sees the exports made so far.
  loaded.set(path, module);
  try {
    load(module.exports, (name) => requireFrom(path, name), module);
  } catch (error) {
    loaded.delete(path);
    throw error;
  }
  return module.exports;
}

/** Forgets all modules at the end of a run. */
export function clean(): void {
  loaded.clear();
}
