/** `require` for rules. Modules are instantiated anew for each run. */
import { host } from '../script/host.js';
import { step } from '../script/pending-operations.js';

/** Loaded modules by path. */
const loaded = new Map<string, { exports: unknown }>();

/** Returns the exports of a module in the folder `modules`. The module runs when the run first requires it. */
export function require(name: unknown): unknown {
  return requireFrom('', name);
}

function requireFrom(from: string, name: unknown): unknown {
  if (typeof name !== 'string') throw new TypeError(`require takes the name of a module, not ${name === null ? 'null' : typeof name}`);
  const [path, load] = host.ruleModule(step.call, from, name);
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
