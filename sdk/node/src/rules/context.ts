/** The arguments and results of rules, with the names of Rengine's scripts. */
import type { User } from '../request.js';
import { DataService, ScriptExecutor } from './data/index.js';

/** A run, as described by the server. */
export interface RunInput {
  readonly requestTime: number;
  readonly clientId: string | null;
  readonly user: User | null;
  readonly traceId: string;
  readonly trace: boolean;
  readonly workflowId: string;
  readonly args: Record<string, unknown>;
  readonly attributes: Record<string, unknown>;
}

type Values = Record<string, unknown>;

/** The result of a rule. */
export class ScriptResult {
  readonly #state: boolean;
  readonly #values: Values;

  constructor(state: boolean, values: Values | Map<string, unknown> | null = {}) {
    if (typeof state !== 'boolean') throw new TypeError(`new ScriptResult(state): true or false, not ${typeof state}`);
    this.#state = state;
    this.#values = values instanceof Map ? Object.fromEntries(values) : { ...values };
  }

  getState(): boolean {
    return this.#state;
  }

  getValueMap(): Values {
    return this.#values;
  }

  addValue(key: string, value: unknown): this {
    this.#values[key] = value;
    return this;
  }

  /** Removes a value and returns it. */
  removeValue(key: string): unknown {
    const value = this.#values[key];
    delete this.#values[key];
    return value;
  }

  /** Removes all values. */
  reset(): this {
    for (const key of Object.keys(this.#values)) delete this.#values[key];
    return this;
  }

  get state(): boolean {
    return this.#state;
  }

  get valueMap(): Values {
    return this.#values;
  }

  static is(value: unknown): value is ScriptResult {
    return typeof value === 'object' && value !== null && #state in value;
  }
}

/** The parameters of the request that started the run. */
export class ScriptParameter {
  readonly #input: RunInput;

  constructor(input: RunInput) {
    this.#input = input;
  }

  getRequestTime(): number {
    return this.#input.requestTime;
  }

  getClientId(): string | null {
    return this.#input.clientId;
  }

  /** The authenticated user, like `request.user` of handlers; null where the route does not ask. */
  getUser(): User | null {
    return this.#input.user;
  }

  getTraceId(): string {
    return this.#input.traceId;
  }

  isTrace(): boolean {
    return this.#input.trace;
  }

  getWorkflowId(): string {
    return this.#input.workflowId;
  }

  getArgs(): Values {
    return this.#input.args;
  }

  get args(): Values {
    return this.#input.args;
  }
}

/** The argument of `process`. */
export class ScriptContext {
  readonly #node: string;
  readonly #kind: string;
  readonly #input: RunInput;
  readonly #last: ScriptResult | null;
  readonly #item: unknown;

  constructor(node: string, kind: string, input: RunInput, last: ScriptResult | null, item: unknown) {
    this.#node = node;
    this.#kind = kind;
    this.#input = input;
    this.#last = last;
    this.#item = item;
  }

  /** The id of the node whose rule is running. */
  getId(): string {
    return this.#node;
  }

  /** The kind of the node: `PROCESS`, `RELATION` and so on. */
  getType(): string {
    return this.#kind;
  }

  getParameter(): ScriptParameter {
    return new ScriptParameter(this.#input);
  }

  getArgs(): Values {
    return this.#input.args;
  }

  /** The attributes of the graph. */
  getAttributes(): Values {
    return this.#input.attributes;
  }

  /** The result of the previous rule; null for the first one. */
  getLastResult(): ScriptResult | null {
    return this.#last;
  }

  /** The current item of the innermost LOOP around the node. */
  getItem(): unknown {
    return this.#item;
  }

  /** Access to databases, HTTP and other systems, within the limits of the configuration. */
  getDataService(): DataService {
    return new DataService();
  }

  /** Runs functions concurrently with the rule. */
  getExecutor(): ScriptExecutor {
    return new ScriptExecutor();
  }

  get id(): string {
    return this.#node;
  }

  get type(): string {
    return this.#kind;
  }

  get args(): Values {
    return this.#input.args;
  }

  get attributes(): Values {
    return this.#input.attributes;
  }

  get parameter(): ScriptParameter {
    return this.getParameter();
  }

  get lastResult(): ScriptResult | null {
    return this.#last;
  }

  get dataService(): DataService {
    return this.getDataService();
  }

  get executor(): ScriptExecutor {
    return this.getExecutor();
  }

  get item(): unknown {
    return this.#item;
  }
}
