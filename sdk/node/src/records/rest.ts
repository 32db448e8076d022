/** Records by kind as WABuR has them: `/v1/{Kind}[/{ref} | /list][?path=value]`. */
import type { Context } from '../context.js';
import { READS } from '../declared.js';
import type { Handler } from '../handler.js';
import { HttpError, type Answer, type Reply } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { Controller, WaburError } from './controller.js';
import { canAsk } from '../stdio/call.js';
import { hasStore } from '../store/opened.js';
import { records as serverRecords, type Records, type Reference } from './index.js';
import type { Model } from './model.js';
import { ServedModel } from './served.js';

/** What is done with a request, for a kind that does it in its own way; what that returns is the answer. */
export interface RestCall<Data = any> {
  readonly request: HttpRequest;
  readonly ctx: Context;
  readonly records: Records;
  readonly kind: string;
  /** The reference in the path; undefined when there is none. */
  readonly ref: Reference | undefined;
  /** Whether the path ends with `/list`: the query says which columns are wanted. */
  readonly isList: boolean;
  /** What the path has behind the kind, decoded: `['11']`, `['list']`, `[]`. */
  readonly path: readonly string[];
  /** Path and value of every condition, or of `list` alias and path. */
  readonly query: readonly (readonly [name: string, value: string])[];
  /** Of PUT, POST and PATCH: the body, which is JSON. */
  readonly data: Data;
  /**
   * Does what is done without a way of one's own, and gives the answer to it: {@link rest} tells what that is. Of PUT, POST and PATCH it writes
   * `data`, or what it is given in its place.
   *
   * @throws HttpError, StoreError what a client is to be told
   */
  usual(data?: object): Reply;
}

/** A way of one's own to answer a call; may be asynchronous. */
export type RestMethod = (call: RestCall) => Answer;

/**
 * The methods of a kind that are open: `true` for what {@link rest} does, a function for another way, which may still do the usual:
 *
 * ```js
 * const Article = {
 *   read: true,
 *   create(call) {
 *     if (!call.data.title) throw new HttpError(422, 'an article has a title');
 *     return call.usual({ ...call.data, made: new Date().toISOString() });
 *   },
 * };
 * ```
 */
export interface RestKind {
  create?: boolean | RestMethod | undefined;
  /** GET and HEAD, lists included. */
  read?: boolean | RestMethod | undefined;
  /** POST, and outside of `compat` PATCH: `call.request.method` says which. */
  update?: boolean | RestMethod | undefined;
  delete?: boolean | RestMethod | undefined;
  /** Everything else: methods that are not open, other methods, and longer paths such as `/v1/Article/11/comments`. */
  handle?: RestMethod | undefined;
}

/** What {@link rest} answers. */
export interface RestOptions {
  /** Kinds by name; `true` opens all methods of a kind. */
  kinds?: Readonly<Record<string, true | RestKind>> | undefined;
  /** Kinds that `kinds` does not name; without it they are answered 404. */
  others?: true | RestKind | undefined;
  /** What stands before the kind in the path; `/v1` when left out. */
  prefix?: string | undefined;
  /** The member that says a record's kind, as `records.type_key` does; `kind` when left out. */
  typeKey?: string | undefined;
  /** `wabur`: 200 or 500, and the bodies of its runner; otherwise statuses say what has happened. */
  compat?: 'none' | 'wabur' | undefined;
  /** Of another store than the server's. */
  records?: Records | undefined;
  /**
   * Where the records are asked for: `server` is over the pipe, where the process is a controller on standard input and output that speaks messages (`jsonl`,
   * `wabur`), and the store in the process elsewhere. When left out, the store in the process is used wherever it has one.
   */
  model?: 'own' | 'server' | undefined;
}

type Method = 'create' | 'read' | 'update' | 'delete';

const METHODS: Readonly<Record<string, Method>> = { PUT: 'create', GET: 'read', HEAD: 'read', POST: 'update', PATCH: 'update', DELETE: 'delete' };
const REFERENCE = /^(0|[1-9]\d{0,19})$/;
/** No record has it, and WABuR takes for it what is no number. */
const NOBODY = '0';
/** Digits of a reference that is surely below 2^64, and needs no closer look. */
const DIGITS_MAX = 19;
const EVERYTHING: RestKind = { create: true, read: true, update: true, delete: true };

/**
 * A handler that answers records by kind:
 *
 * ```js
 * import { rest } from 'forebay/records';
 *
 * export default rest({ kinds: { Article: true, Entry: { read: true } } });
 * ```
 *
 * | request | body of the answer |
 * |---|---|
 * | `PUT /v1/Article`, with `?title=X` only if none has that | `{"code":0,"ref":11}`, 201 with `Location` |
 * | `GET /v1/Article/11`, `GET /v1/Article?num=3`, `GET /v1/Article` | `{"code":0,"results":[{"id":11,"data":{...}}]}` |
 * | `GET /v1/Article/list?Title=title` | `{"code":0,"results":[{"ref":11,"Title":"..."}]}` |
 * | `POST /v1/Article/11`, `POST /v1/Article?num=3` | `{"code":0,"updated":[11]}` |
 * | `PATCH /v1/Article/11` | the same; a merge patch |
 * | `DELETE /v1/Article/11`, `DELETE /v1/Article?num=3`, `DELETE /v1/Article` | `{"code":0,"deleted":[11]}` |
 *
 * A value of the query is a number, a time or a UUID when it looks like one, and a text otherwise, or behind a `'`.
 */
export function rest(options: RestOptions): Handler {
  const { kinds = {}, others, prefix = '/v1', typeKey = 'kind', compat = 'none', records = serverRecords, model } = options;
  const isWabur = compat === 'wabur';
  const settings = { prefix, typeKey, isWabur, records };
  // Where records are is known once the process serves.
  let made: Controller | undefined;
  const rules = new Map(Object.entries(kinds).map(([kind, rule]) => [kind, rule === true ? EVERYTHING : rule]));
  const fallback = others === true ? EVERYTHING : others;
  const readByReference = `GET${prefix}/`;
  const handler: Handler = (request, ctx) => {
    const controller = (made ??= new Controller(modelFor(records, model), settings));
    try {
      const head = (request as WireRequest).methodAndPath;
      if (head.startsWith(readByReference)) {
        const slash = head.indexOf('/', readByReference.length);
        const kind = head.slice(readByReference.length, slash);
        const read = rules.get(kind)?.read;
        // Nothing but the kind, which stands as it is, and a reference: what is asked for most often.
        if (read !== undefined && read !== false && isReference(head, slash + 1)) {
          const reference = head.slice(slash + 1);
          if (read === true) return controller.readOne(request, kind, reference);
          return settled(read(new Call(request, ctx, controller, kind, 'read', reference)), controller);
        }
      }
      const path = pathBelow(request, prefix);
      const kind = path?.shift() ?? '';
      const rule = kind === '' ? undefined : (rules.get(kind) ?? fallback);
      if (path === undefined || rule === undefined) throw new HttpError(404, 'no kind that is open here has this path');
      return settled(Call.at(request, ctx, controller, kind, path).answer(rule), controller);
    } catch (error) {
      return controller.refused(error);
    }
  };
  if (records !== serverRecords) return handler;
  const readAsUsual = [...rules].filter(([, rule]) => rule.read === true).map(([kind]) => kind);
  return Object.assign(handler, { [READS]: { prefix, kinds: readAsUsual, isWabur } });
}

// Members of symbols, made by assignment, because a script's engine takes much longer to make private ones.
const CONTROLLER = Symbol('controller');
const METHOD = Symbol('method');
const QUERY = Symbol('query');
const BELOW = Symbol('below');

/** A call to a kind, on its way through its rule. */
export class Call implements RestCall {
  declare readonly request: HttpRequest;
  declare readonly ctx: Context;
  declare readonly kind: string;
  /** The reference as it stands in the path; empty when there is none. */
  declare readonly refText: string;
  declare data: any;
  declare readonly [CONTROLLER]: Controller;
  /** What is usual; undefined when that is to refuse. */
  declare readonly [METHOD]: Method | undefined;
  /** What the path has behind the kind, where that is not the reference alone. */
  declare readonly [BELOW]: readonly string[] | undefined;
  declare [QUERY]: [string, string][] | undefined;

  constructor(request: HttpRequest, ctx: Context, controller: Controller, kind: string, method: Method | undefined, refText: string, below?: readonly string[]) {
    this.request = request;
    this.ctx = ctx;
    this.kind = kind;
    this.refText = refText;
    this[CONTROLLER] = controller;
    this[METHOD] = method;
    if (below !== undefined) this[BELOW] = below;
  }

  /** A call whose path has this behind the kind. */
  static at(request: HttpRequest, ctx: Context, controller: Controller, kind: string, below: readonly string[]): Call {
    const { method } = request;
    const { isWabur } = controller.settings;
    const [last = ''] = below;
    const isList = isListOf(below, method);
    const isOfShape = below.length < 2 && (last === '' || isList || isWabur || REFERENCE.test(last));
    const usual = !isOfShape || (isWabur && method === 'PATCH') ? undefined : METHODS[method];
    const refText = last === '' || isList || !isOfShape ? '' : REFERENCE.test(last) ? last : NOBODY;
    return new Call(request, ctx, controller, kind, usual, refText, below);
  }

  get path(): readonly string[] {
    return this[BELOW] ?? [this.refText];
  }

  get isList(): boolean {
    return isListOf(this.path, this.request.method);
  }

  get records(): Records {
    return this[CONTROLLER].settings.records;
  }

  get ref(): Reference | undefined {
    if (this.refText === '') return undefined;
    const number = Number(this.refText);
    return Number.isSafeInteger(number) ? number : BigInt(this.refText);
  }

  get query(): readonly (readonly [string, string])[] {
    return (this[QUERY] ??= (this.request as WireRequest).queryText === '' ? [] : [...this.request.query]);
  }

  answer(rule: RestKind): Answer {
    const method = this[METHOD];
    const does = method === undefined ? undefined : rule[method];
    if (method === undefined || does === undefined || does === false) {
      return rule.handle === undefined ? this.#refuse(rule) : rule.handle(this);
    }
    if (method === 'read' || method === 'delete') return does === true ? this.usual() : does(this);
    const answer = (text: string): Answer => {
      this.data = parsed(text);
      return does === true ? this.#usual(this.data, text) : does(this);
    };
    const text = (this.request as WireRequest).textNow();
    return text === undefined ? this.request.text().then(answer) : answer(text);
  }

  usual(data: unknown = this.data): Reply {
    return this.#usual(data, undefined);
  }

  /** `text`: that of the data, where nobody can have changed it. */
  #usual(data: unknown, text: string | undefined): Reply {
    switch (this[METHOD]) {
      case 'create':
        return this[CONTROLLER].create(this, data, text);
      case 'read':
        return this[CONTROLLER].read(this);
      case 'update':
        return this[CONTROLLER].update(this, data, text);
      case 'delete':
        return this[CONTROLLER].delete(this);
      case undefined:
        return this.#refuse({});
    }
  }

  #refuse(rule: RestKind): never {
    const { method } = this.request;
    if (this[METHOD] === undefined && METHODS[method] !== undefined && method !== 'PATCH') {
      throw new HttpError(404, 'no kind that is open here has this path');
    }
    if (this[CONTROLLER].settings.isWabur) throw new WaburError(`${method} is not a supported method`, 'StandardError');
    const open = Object.keys(METHODS).filter((name) => (rule[METHODS[name]!] ?? false) !== false);
    throw new HttpError(405, `${method} is not open here`, { headers: { allow: open.toSorted().join(', ') } });
  }
}

function isListOf([last]: readonly string[], method: string): boolean {
  return last === 'list' && METHODS[method] === 'read';
}

function modelFor(records: Records, wanted: 'own' | 'server' | undefined): Model {
  const isOwn = wanted === 'own' || records !== serverRecords || !canAsk() || (wanted === undefined && hasStore());
  return isOwn ? records.model : new ServedModel();
}

/** An answer, or that to what it failed with. */
function settled(answer: Answer, controller: Controller): Answer {
  return answer instanceof Promise ? answer.catch((error: unknown) => controller.refused(error)) : answer;
}

/** Whether what begins there is a reference that needs no closer look. */
function isReference(head: string, at: number): boolean {
  const digits = head.length - at;
  if (at === 0 || digits === 0 || digits > DIGITS_MAX) return false;
  for (let index = at; index < head.length; index++) {
    const code = head.charCodeAt(index);
    // The first of several is none of those that are 0.
    if (code < 48 || code > 57 || (code === 48 && index === at && digits > 1)) return false;
  }
  return true;
}

/** The segments of a path below a prefix, decoded; undefined when it is none below. */
function pathBelow(request: HttpRequest, prefix: string): string[] | undefined {
  if (!request.path.startsWith(`${prefix}/`)) return undefined;
  return request.path.slice(prefix.length + 1).split('/').map(decode);
}

function decode(segment: string): string {
  try {
    return segment.includes('%') ? decodeURIComponent(segment) : segment;
  } catch {
    throw new HttpError(400, 'the path is not percent-encoded UTF-8');
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new HttpError(400, 'the body is not JSON', { cause: error });
  }
}
