/** HTTP access to records by kind, with WABuR's paths: `/v1/{Kind}[/{ref} | /list][?path=value]`. */
import type { Context } from '../context.js';
import { READS } from '../declared-reads.js';
import type { Handler } from '../handler.js';
import { HttpError, type Answer, type Reply } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { Controller, WaburError } from './controller.js';
import { canAsk } from '../stdio/call.js';
import { hasStore } from '../store/open-stores.js';
import { records as serverRecords, type Records, type Reference } from './index.js';
import type { Model } from './model.js';
import { RemoteModel } from './remote-model.js';

/** A request, as passed to the methods of a {@link RestKind}; the method's return value is the response. */
export interface RestCall<Data = any> {
  readonly request: HttpRequest;
  readonly ctx: Context;
  readonly records: Records;
  readonly kind: string;
  /** The reference in the path; undefined if there is none. */
  readonly ref: Reference | undefined;
  /** Whether the path ends with `/list`; then the query names the columns. */
  readonly isList: boolean;
  /** The decoded segments after the kind: `['11']`, `['list']`, `[]`. */
  readonly path: readonly string[];
  /** Path and value of each condition; for `list`, alias and path of each column. */
  readonly query: readonly (readonly [name: string, value: string])[];
  /** The JSON body of PUT, POST and PATCH. */
  readonly data: Data;
  /**
   * Performs the default action and returns its response; see {@link rest}. For PUT, POST and PATCH it writes `data`, or the object passed
   * instead.
   *
   * @throws HttpError or StoreError for errors that the client is told about
   */
  usual(data?: object): Reply;
}

/** A custom implementation of a method; may be asynchronous. */
export type RestMethod = (call: RestCall) => Answer;

/**
 * The allowed methods of a kind: `true` for the default of {@link rest}, or a function, which may call the default:
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
  /** GET and HEAD, including lists. */
  read?: boolean | RestMethod | undefined;
  /** POST, and PATCH unless `compat` is set; see `call.request.method`. */
  update?: boolean | RestMethod | undefined;
  delete?: boolean | RestMethod | undefined;
  /** All other requests: methods that are not allowed, and longer paths such as `/v1/Article/11/comments`. */
  handle?: RestMethod | undefined;
}

/** Options of {@link rest}. */
export interface RestOptions {
  /** Kinds by name; `true` allows all methods. */
  kinds?: Readonly<Record<string, true | RestKind>> | undefined;
  /** For kinds not listed in `kinds`; if omitted, they get 404. */
  others?: true | RestKind | undefined;
  /** The path in front of the kind; `/v1` by default. */
  prefix?: string | undefined;
  /** The member that holds a record's kind, as set by `records.type_key`; `kind` by default. */
  typeKey?: string | undefined;
  /** `wabur`: status 200 or 500 and the bodies of WABuR's runner. Otherwise the status tells what happened. */
  compat?: 'none' | 'wabur' | undefined;
  /** The records of another store than the server's. */
  records?: Records | undefined;
  /**
   * Where to access the records. `server` sends requests over the pipe if the process is a controller that speaks messages on standard
   * input and output (`jsonl`, `wabur`), and otherwise uses the store in the process. By default, the store in the process is used if it
   * has one.
   */
  model?: 'own' | 'server' | undefined;
}

type Method = 'create' | 'read' | 'update' | 'delete';

const METHODS: Readonly<Record<string, Method>> = { PUT: 'create', GET: 'read', HEAD: 'read', POST: 'update', PATCH: 'update', DELETE: 'delete' };
const REFERENCE = /^(0|[1-9]\d{0,19})$/;
/** A reference that no record has; stands for one that is not a number, which WABuR accepts. */
const NOBODY = '0';
/** Up to this many digits, a reference is certainly below 2^64. */
const DIGITS_MAX = 19;
const EVERYTHING: RestKind = { create: true, read: true, update: true, delete: true };

/**
 * Makes a handler that serves records by kind:
 *
 * ```js
 * import { rest } from 'forebay/records';
 *
 * export default rest({ kinds: { Article: true, Entry: { read: true } } });
 * ```
 *
 * | request | response body |
 * |---|---|
 * | `PUT /v1/Article`, with `?title=X` only if none has that | `{"code":0,"ref":11}`, 201 with `Location` |
 * | `GET /v1/Article/11`, `GET /v1/Article?num=3`, `GET /v1/Article` | `{"code":0,"results":[{"id":11,"data":{...}}]}` |
 * | `GET /v1/Article/list?Title=title` | `{"code":0,"results":[{"ref":11,"Title":"..."}]}` |
 * | `POST /v1/Article/11`, `POST /v1/Article?num=3` | `{"code":0,"updated":[11]}` |
 * | `PATCH /v1/Article/11` | the same; a merge patch |
 * | `DELETE /v1/Article/11`, `DELETE /v1/Article?num=3`, `DELETE /v1/Article` | `{"code":0,"deleted":[11]}` |
 *
 * A query value counts as a number, a time or a UUID if it looks like one, and otherwise, or after a `'`, as text.
 */
export function rest(options: RestOptions): Handler {
  const { kinds = {}, others, prefix = '/v1', typeKey = 'kind', compat = 'none', records = serverRecords, model } = options;
  const isWabur = compat === 'wabur';
  const settings = { prefix, typeKey, isWabur, records };
  // Created with the first request, because only then is it known where the records are.
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
        // Fast path for the most common request: an unencoded kind and a reference.
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

// Symbol members, set by assignment, because the script engine takes much longer to create private ones.
const CONTROLLER = Symbol('controller');
const METHOD = Symbol('method');
const QUERY = Symbol('query');
const BELOW = Symbol('below');

/** A request for a kind. */
export class Call implements RestCall {
  declare readonly request: HttpRequest;
  declare readonly ctx: Context;
  declare readonly kind: string;
  /** The reference as written in the path; empty if there is none. */
  declare readonly refText: string;
  declare data: any;
  declare readonly [CONTROLLER]: Controller;
  /** The default action; undefined if the request is to be refused. */
  declare readonly [METHOD]: Method | undefined;
  /** The segments after the kind, unless they are just the reference. */
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

  /** Makes a call for a path with these segments after the kind. */
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

  /** `text` is the original JSON of `data`, if no code can have changed it. */
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
  return isOwn ? records.model : new RemoteModel();
}

/** Handles errors of an asynchronous answer. */
function settled(answer: Answer, controller: Controller): Answer {
  return answer instanceof Promise ? answer.catch((error: unknown) => controller.refused(error)) : answer;
}

/** Whether the text from `at` on is a reference in the simplest form, which needs no further checks. */
function isReference(head: string, at: number): boolean {
  const digits = head.length - at;
  if (at === 0 || digits === 0 || digits > DIGITS_MAX) return false;
  for (let index = at; index < head.length; index++) {
    const code = head.charCodeAt(index);
    // No leading zeros.
    if (code < 48 || code > 57 || (code === 48 && index === at && digits > 1)) return false;
  }
  return true;
}

/** The decoded segments of a path below a prefix; undefined if the path is not below it. */
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
