/** `require` of rules. What a module gives is of one run: the next has it anew. */
import { host } from '../script/host.js';
import { step } from '../script/waits.js';

/** By their paths. */
const loaded = new Map<string, { exports: unknown }>();

/** Gives what a module of the folder `modules` exports, which runs when a rule of the run requires it first. */
export function require(name: unknown): unknown {
  return requireFrom('', name);
}

function requireFrom(from: string, name: unknown): unknown {
  if (typeof name !== 'string') throw new TypeError(`require takes the name of a module, not ${name === null ? 'null' : typeof name}`);
  const [path, load] = host.ruleModule(step.call, from, name);
  const known = loaded.get(path);
  if (known !== undefined) return known.exports;
  const module = { exports: {} as unknown };
  // One that requires itself through another sees what it has exported so far.
  loaded.set(path, module);
  try {
    load(module.exports, (name) => requireFrom(path, name), module);
  } catch (error) {
    loaded.delete(path);
    throw error;
  }
  return module.exports;
}

/** The run is over. */
export function clean(): void {
  loaded.clear();
}
