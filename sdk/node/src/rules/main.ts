/** The entry points of rules for the server: runs the rules that the driver of a run orders, one run at a time. */
import { isPromise } from '../outcome.js';
import { host, type RuleOrder, type RunOrder } from '../script/host.js';
import { cancelOperation, dropOperations, step, waitFor, wake } from '../script/pending-operations.js';
import { installGlobals, loadAll } from '../script/web/install.js';
import { console } from './console.js';
import { ScriptContext, ScriptParameter, ScriptResult, type RunInput } from './context.js';
import * as clientCalls from './data/client-calls.js';
import { classes, constructors, pools } from './data/index.js';
import { http } from './gorules/http.js';
import * as zen from './gorules/zen.js';
import * as modules from './modules.js';
import * as realm from './realm.js';
import { fixTime } from './fixed-time.js';
import { tools } from './tools/index.js';

installGlobals();
fixTime(host.fixedTime() ?? null);
const loaded = loadAll();
const databases = loadDatabases();
const reachable = [
  ...databases.reachable,
  ...classes,
  ScriptParameter,
  modules.own,
  modules.libraries,
  ...loaded.flatMap((module) => Object.values(module)),
  ...Object.values(host.module('dist/script/web/inspect.js')),
];
const { store, sql } = databases;
Object.assign(modules.own, { http, zen: zen.zenOf(follow) });
globalThis.fetch = clientCalls.adapted('fetch', globalThis.fetch as never, false);
const responses = globalThis.Response.prototype as unknown as Record<string, () => unknown>;
for (const name of ['arrayBuffer', 'blob', 'bytes', 'formData', 'json', 'text']) {
  responses[name] = clientCalls.adapted(`Response.${name}`, responses[name]!, false);
}
realm.close({ ScriptContext, ScriptResult, ...constructors, ...tools, console, store, sql, pools, require: modules.require }, reachable);

/** Loads `databases.ts` only if there is anything to access. */
function loadDatabases(): Pick<typeof import('./databases.js'), 'store' | 'sql' | 'reachable' | 'clean'> {
  if (host.hasStore() || host.databases().length > 0) return host.module('dist/rules/databases.js') as typeof import('./databases.js');
  const missing = (name: string, what: string) =>
    new Proxy(Object.create(null) as never, {
      get: () => {
        throw new TypeError(`\`${name}\`: \`allow\` of \`[workflow]\` names no ${what} in \`${name}\``);
      },
    });
  return { store: missing('store', 'global'), sql: missing('sql', 'database'), reachable: [], clean() {} };
}

/** The kinds of nodes whose rule is a function of its input: with the results of GoRules' second version of functions, or its first. */
const FUNCTION = 'functionNode';
const FUNCTION_1 = 'functionNode.1';

/** The input of the current run; parsed when its first rule runs. */
let input: RunInput | null = null;
/** Numbers of the waits until rules continue, or start in a step of their own, by ticket. */
const operations = new Map<number, number>();

/** Starts a call. */
export function run(call: number): void {
  step.call = call;
  step.rule = 0;
  input = null;
  operations.clear();
  follow(call, host.begin(call));
}

/** Resumes a call whose wait has ended: with the named error, or with a value. */
export function resume(call: number, wait: number, error: string | null, value: unknown): void {
  step.call = call;
  step.rule = 0;
  wake(wait, error === null ? null : makeError(error, value as string), value);
}

function makeError(name: string, message: string): Error {
  return name === 'TypeError' ? new TypeError(message) : new DOMException(message, name);
}

/** The client no longer waits for the call: its rules do not continue. */
export function abort(call: number): void {
  step.call = call;
  dropOperations(call);
}

export function stop(): Promise<void> {
  return Promise.resolve();
}

export function clean(): void {
  dropOperations(step.call);
  input = null;
  operations.clear();
  clientCalls.clean();
  zen.clean();
  databases.clean();
  modules.clean();
  realm.clean();
}

/** Executes the server's orders. An order that is cancelled by a later one before its turn is skipped. */
function follow(call: number, orders: RuleOrder[]): void {
  const cancelled = new Set<number>();
  const waiting: Exclude<RuleOrder, { length: 1 | 3 }>[] = [];
  const take = (orders: RuleOrder[]) => {
    for (const order of orders) {
      if (order.length === 3) zen.endEvaluation(...order);
      else if (order.length !== 1) waiting.push(order);
      else if (!cancel(order[0])) cancelled.add(order[0]);
    }
  };
  take(orders);
  // Rules that begin together run in steps of their own, so that code that runs in a step belongs to one rule.
  let areSeveral = false;
  for (let at = 0; at < waiting.length && host.isOpen(call); at++) {
    const order = waiting[at]!;
    if (cancelled.has(order[0])) continue;
    if (order.length === 2) pass(call, order[0], order[1]);
    else if ((areSeveral ||= order.length === 8 || waiting.length - at > 1)) runInTurn(call, order);
    else take(runRule(call, order) ?? []);
  }
}

function pass(call: number, ticket: number, ms: number): void {
  wait(
    ticket,
    () => follow(call, host.timePassed(call, ticket)),
    (call, wait) => host.ruleTimer(call, wait, ms),
  );
}

/**
 * Runs a rule in its own step: one that has its own time limit, so that the limit interrupts nothing else, and one that begins together
 * with others.
 */
function runInTurn(call: number, order: RunOrder | [...RunOrder, isTimed: true]): void {
  const ticket = order[0];
  wait(
    ticket,
    () => {
      host.ruleTurn(ticket);
      follow(call, runRule(call, order) ?? []);
    },
    host.turn,
  );
}

/** Waits for the operation that `begin` starts; forgetting the ticket cancels the wait. */
function wait(ticket: number, proceed: () => void, begin: (call: number, wait: number) => boolean): void {
  const number = waitFor(
    () => {
      operations.delete(ticket);
      proceed();
    },
    begin,
    false,
  );
  operations.set(ticket, number);
}

/** Cancels the wait of a ticket; false if there is none. */
function cancel(ticket: number): boolean {
  clientCalls.endRule(ticket);
  const number = operations.get(ticket);
  if (number === undefined) return false;
  operations.delete(ticket);
  cancelOperation(number);
  return true;
}

/** Runs a rule; returns the next orders, or null if the rule has not finished. */
function runRule(call: number, order: RunOrder | [...RunOrder, isTimed: true]): RuleOrder[] | null {
  const [ticket, load, node, kind, lastState, lastValues, item] = order;
  try {
    input ??= host.runInput(call);
    const process = load();
    if (kind === FUNCTION) return callFunction(call, ticket, process, lastValues!, finishFunction);
    if (kind === FUNCTION_1) return callFunction(call, ticket, process, lastValues!, finishFirstFunction);
    if (typeof process !== 'function') throw new TypeError('it has no function `process`');
    const last = lastValues === null ? null : new ScriptResult(lastState, JSON.parse(lastValues) as Record<string, unknown>);
    const context = new ScriptContext(node, kind, input, last, item === null ? undefined : JSON.parse(item));
    return whenSettled(call, ticket, runPart(ticket, process as (context: ScriptContext) => unknown, context, undefined), finishRule);
  } catch (error) {
    return failRule(call, ticket, error);
  }
}

type Take = (call: number, ticket: number, result: unknown) => RuleOrder[];

/** Passes the result of a rule to `take`, now or when its promise settles. */
function whenSettled(call: number, ticket: number, result: unknown, take: Take): RuleOrder[] | null {
  if (!isPromise(result)) return take(call, ticket, result);
  result.then(
    (result) => {
      let next: RuleOrder[];
      try {
        next = take(call, ticket, result);
      } catch (error) {
        next = failRule(call, ticket, error);
      }
      follow(call, next);
    },
    (error: unknown) => follow(call, failRule(call, ticket, error)),
  );
  return null;
}

/** Calls the function of a decision with its JSON input. */
function callFunction(call: number, ticket: number, handler: unknown, input: string, finish: Take): RuleOrder[] | null {
  if (typeof handler !== 'function') throw new TypeError('it exports no function `handler`');
  const result = runPart(ticket, handler as (input: unknown, libraries: object) => unknown, JSON.parse(input), modules.libraries);
  return whenSettled(call, ticket, result, finish);
}

/** Runs the synchronous part of a rule. */
function runPart<A, B>(ticket: number, process: (first: A, second: B) => unknown, first: A, second: B): unknown {
  const before = clientCalls.beginRule(ticket, process);
  try {
    return process(first, second);
  } finally {
    clientCalls.returned(before);
  }
}

function finishFunction(call: number, ticket: number, result: unknown): RuleOrder[] {
  return finishFirstFunction(call, ticket, result, exactly);
}

function finishFirstFunction(call: number, ticket: number, result: unknown, replace?: (name: string, value: unknown) => unknown): RuleOrder[] {
  const unawaited = clientCalls.endRule(ticket);
  if (unawaited !== undefined) return failRule(call, ticket, unawaited);
  return host.ruleOver(call, ticket, true, JSON.stringify(result ?? null, replace) ?? 'null');
}

const { rawJSON } = JSON as unknown as { rawJSON(text: string): object };

/** Values that JSON has no notation for: a BigInt keeps all its digits, undefined is null, and NaN and infinite numbers are errors. */
function exactly(name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return rawJSON(String(value));
  if (typeof value === 'number' && !Number.isFinite(value)) throw new TypeError(`the result${name === '' ? '' : `'s \`${name}\``} is ${value}, which is no number in a decision`);
  return value === undefined ? null : value;
}

function finishRule(call: number, ticket: number, result: unknown): RuleOrder[] {
  const unawaited = clientCalls.endRule(ticket);
  if (unawaited !== undefined) return failRule(call, ticket, unawaited);
  if (!ScriptResult.is(result)) throw new TypeError(`\`process\` gives a ScriptResult, not ${result === null ? 'null' : typeof result}`);
  const values = JSON.stringify(result.getValueMap()) as string | undefined;
  if (values?.startsWith('{') !== true) throw new TypeError('the values of a ScriptResult are an object in JSON');
  return host.ruleOver(call, ticket, result.getState(), values);
}

function failRule(call: number, ticket: number, error: unknown): RuleOrder[] {
  clientCalls.endRule(ticket);
  return host.ruleFailed(call, ticket, describe(error));
}

/** The text of an error; the object may be any value, with getters that throw. */
function describe(error: unknown): string {
  try {
    if (error instanceof Error) return `${error.name}: ${error.message}\n${error.stack ?? ''}`;
    return `it threw ${typeof error === 'string' ? error : JSON.stringify(error)}`;
  } catch {
    return 'it threw what cannot be shown';
  }
}
