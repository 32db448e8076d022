/** Records by kind as WABuR has them: `/v1/{Kind}[/{ref} | /list][?path=value]`. */
import { HttpError, text, type Answer, type Reply } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { StoreError, type StoreErrorCode } from '../store/index.js';
import { jsonText } from '../store/json.js';
import { records as serverRecords, type Records, type Reference } from './index.js';

/** What is done with a request, for a kind that does it in its own way; what it returns is the answer. */
export interface RestCall {
  request: HttpRequest;
  records: Records;
  kind: string;
  /** The reference in the path; undefined when there is none. */
  ref: Reference | undefined;
  /** Path and value of every condition, or of `list` alias and path. */
  query: readonly (readonly [name: string, value: string])[];
  /** Of PUT, POST and PATCH. */
  data: any;
}

/** The methods of a kind that are open: `true` for what this module does, a function for another way. */
export interface RestKind {
  create?: boolean | ((call: RestCall) => Answer) | undefined;
  /** GET, lists included. */
  read?: boolean | ((call: RestCall) => Answer) | undefined;
  /** POST, and outside of `compat` PATCH. */
  update?: boolean | ((call: RestCall) => Answer) | undefined;
  delete?: boolean | ((call: RestCall) => Answer) | undefined;
}

/** What {@link rest} answers. */
export interface RestOptions {
  /** Kinds by name; `true` opens all methods of a kind. A kind that is not there is answered 404. */
  kinds: Readonly<Record<string, true | RestKind>>;
  /** What stands before the kind in the path; `/v1` when left out. */
  prefix?: string | undefined;
  /** The member that says a record's kind, as `records.type_key` does; `kind` when left out. */
  typeKey?: string | undefined;
  /** `wabur`: 200 or 500, and the bodies of its runner; otherwise statuses say what has happened. */
  compat?: 'none' | 'wabur' | undefined;
  /** Of another store than the server's. */
  records?: Records | undefined;
}

type Method = keyof RestKind;

const METHODS: Readonly<Record<string, Method>> = { PUT: 'create', GET: 'read', HEAD: 'read', POST: 'update', PATCH: 'update', DELETE: 'delete' };
const REFERENCE = /^(0|[1-9]\d{0,19})$/;
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const DETECTED = /^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d))$/;
const STATUSES: Partial<Record<StoreErrorCode, number>> = {
  tql_syntax: 400,
  json: 400,
  not_json: 400,
  tql_meaning: 422,
  not_an_object: 422,
  kind: 422,
  examined_max: 422,
  rows_max: 422,
  already_exists: 409,
  not_unique: 409,
  value_too_long: 413,
  answer_bytes_max: 413,
};

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
export function rest(options: RestOptions): (request: HttpRequest) => Answer {
  const { kinds, prefix = '/v1', typeKey = 'kind', compat = 'none', records = serverRecords } = options;
  const isWabur = compat === 'wabur';
  const controller = new Controller(records, typeKey, prefix, isWabur);
  return (request) => {
    const wabur = (error: unknown): Reply => {
      const known = error instanceof StoreError || error instanceof HttpError;
      const message = error instanceof StoreError && error.code === 'already_exists' ? 'Already exists.' : (error as Error).message;
      if (!known) throw error;
      return answer(jsonText({ code: -1, error: message }), 500);
    };
    const refuse = isWabur ? wabur : refused;
    try {
      const place = placeOf(request, prefix);
      const rule = place === undefined || !Object.hasOwn(kinds, place.kind) ? undefined : kinds[place.kind];
      if (place === undefined || rule === undefined) throw new HttpError(404, 'no kind that is open here has this path');
      const method = request.method === 'PATCH' && isWabur ? undefined : METHODS[request.method];
      const does = method === undefined ? undefined : rule === true ? true : rule[method];
      if (method === undefined || does === undefined || does === false) {
        throw new HttpError(405, `${request.method} is not open here`, { headers: { allow: allowed(rule, isWabur) } });
      }
      const call = (data: unknown): Answer => {
        const whole: RestCall = { request, records, kind: place.kind, ref: place.ref, query: place.query, data };
        return does === true ? controller[method](whole, place.isList) : does(whole);
      };
      if (method === 'read' || method === 'delete') return call(undefined);
      return request.json().then(call).catch(refuse);
    } catch (error) {
      return refuse(error);
    }
  };
}

interface Place {
  kind: string;
  ref: Reference | undefined;
  isList: boolean;
  query: (readonly [string, string])[];
}

/** What the path of a request says; undefined when it is none of a kind. */
function placeOf(request: HttpRequest, prefix: string): Place | undefined {
  if (!request.path.startsWith(`${prefix}/`)) return undefined;
  const [kind = '', last, ...more] = request.path.slice(prefix.length + 1).split('/').map(decode);
  if (kind === '' || more.length > 0) return undefined;
  const isList = last === 'list' && request.method === 'GET';
  if (last !== undefined && last !== '' && !isList && !REFERENCE.test(last)) return undefined;
  const ref = last === undefined || last === '' || isList ? undefined : toReference(last);
  return { kind, ref, isList, query: (request as WireRequest).queryText === '' ? [] : [...request.query] };
}

function decode(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new HttpError(400, 'the path is not percent-encoded UTF-8');
  }
}

function toReference(digits: string): Reference {
  const number = Number(digits);
  return Number.isSafeInteger(number) ? number : BigInt(digits);
}

function allowed(rule: true | RestKind, isWabur: boolean): string {
  const open = (name: string) => {
    const method = METHODS[name]!;
    return !(isWabur && name === 'PATCH') && (rule === true || (rule[method] ?? false) !== false);
  };
  return Object.keys(METHODS).filter(open).toSorted().join(', ');
}

function answer(body: string, status = 200, headers: Record<string, string> = {}): Reply {
  return text(body, { status, headers: { ...headers, 'content-type': 'application/json' } });
}

/** Makes of an error of the store the status that says the same. */
function refused(error: unknown): never {
  const status = error instanceof StoreError ? STATUSES[error.code] : undefined;
  throw status === undefined ? error : new HttpError(status, (error as Error).message, { cause: error });
}

/** What is done with records where a kind has no way of its own. */
class Controller {
  readonly #records: Records;
  readonly #typeKey: string;
  readonly #prefix: string;
  readonly #isWabur: boolean;

  constructor(records: Records, typeKey: string, prefix: string, isWabur: boolean) {
    this.#records = records;
    this.#typeKey = typeKey;
    this.#prefix = prefix;
    this.#isWabur = isWabur;
  }

  create({ kind, ref, query, data }: RestCall): Answer {
    if (ref !== undefined) throw new HttpError(405, 'PUT makes a record, whose reference is given to it', { headers: { allow: 'DELETE, GET, HEAD, PATCH, POST' } });
    const document = jsonText(this.#ofKind(kind, data));
    const where = query.length === 0 ? '' : `"where":${this.#where(kind, query)},`;
    const made = this.#records.tql(`{${where}"insert":${document}}`);
    const body = `{"code":0,"ref":${String(made.ref)}}`;
    if (this.#isWabur) return answer(body);
    return answer(body, 201, { location: `${this.#prefix}/${encodeURIComponent(kind)}/${String(made.ref)}` });
  }

  read({ request, kind, ref, query }: RestCall, isList: boolean): Answer {
    if (isList) {
      const columns = query.map(([alias, path]) => `,${JSON.stringify(alias)}:${JSON.stringify(path)}`);
      return this.#answered(`{"where":${this.#where(kind, [])},"select":{"ref":"$ref"${columns.join('')}}}`);
    }
    if (ref === undefined) return this.#answered(`{"where":${this.#where(kind, query)},"select":{"id":"$ref","data":"$"}}`);
    const stored = this.#records.readText(ref, kind);
    if (stored === undefined) {
      if (this.#isWabur) return answer('{"code":0,"results":[]}');
      throw missing(kind, ref);
    }
    const body = `{"code":0,"results":[{"id":${String(ref)},"data":${stored}}]}`;
    if (this.#isWabur) return answer(body);
    const etag = this.#records.tag(stored);
    if (names(request.headers.get('if-none-match'), etag)) return text('', { status: 304, headers: { etag } });
    return answer(body, 200, { etag });
  }

  update({ request, kind, ref, query, data }: RestCall): Answer {
    const isPatch = request.method === 'PATCH';
    if (ref === undefined) {
      if (isPatch || query.length === 0) throw new HttpError(400, 'an update says by a reference or a query which records it concerns');
      const document = jsonText(this.#ofKind(kind, data));
      return this.#answered(`{"where":${this.#where(kind, query)},"update":${document}}`);
    }
    const change = isPatch ? data : this.#ofKind(kind, data);
    const done = this.#guarded(request, kind, ref, () => (isPatch ? this.#patch(kind, ref, change) : this.#records.update(ref, change, kind)));
    return this.#outcome('updated', kind, ref, done);
  }

  /** A patch cannot take a record out of the kind in the path: another may not be open. */
  #patch(kind: string, ref: Reference, change: object): boolean {
    return this.#records.transaction(() => {
      const done = this.#records.patch(ref, change, kind);
      if (done && this.#records.kindOf(ref) !== kind) throw new HttpError(422, `${this.#typeKey} of the record is not \`${kind}\``);
      return done;
    });
  }

  delete({ request, kind, ref, query }: RestCall): Answer {
    if (ref === undefined) return this.#answered(`{"where":${this.#where(kind, query)},"delete":null}`);
    const done = this.#guarded(request, kind, ref, () => this.#records.delete(ref, kind));
    return this.#outcome('deleted', kind, ref, done);
  }

  #answered(statement: string): Reply {
    return answer(this.#records.tqlText(statement));
  }

  #outcome(member: 'updated' | 'deleted', kind: string, ref: Reference, done: boolean): Reply {
    if (!done && !this.#isWabur) throw missing(kind, ref);
    return answer(`{"code":0,"${member}":[${done ? String(ref) : ''}]}`);
  }

  /** Does something to a record if it is as `If-Match` demands. */
  #guarded(request: HttpRequest, kind: string, ref: Reference, work: () => boolean): boolean {
    const wanted = this.#isWabur ? null : request.headers.get('if-match');
    if (wanted === null) return work();
    return this.#records.transaction(() => {
      const stored = this.#records.readText(ref, kind);
      if (stored === undefined) return false;
      if (!names(wanted, this.#records.tag(stored))) throw new HttpError(412, 'the record is not as If-Match demands');
      return work();
    });
  }

  /** What is written is of the kind in the path, whether it says so or not. */
  #ofKind(kind: string, data: unknown): object {
    if (typeof data !== 'object' || data === null || Array.isArray(data)) {
      throw new HttpError(422, 'a record is a JSON object');
    }
    // It was read from this request alone.
    const record = data as Record<string, unknown>;
    const names = this.#typeKey.split('.');
    const last = names.pop()!;
    let holder = record;
    for (const name of names) {
      const next = Object.hasOwn(holder, name) ? holder[name] : (holder[name] = {});
      if (typeof next !== 'object' || next === null) throw new HttpError(422, `${this.#typeKey} of the record is not \`${kind}\``);
      holder = next as Record<string, unknown>;
    }
    if (!Object.hasOwn(holder, last)) holder[last] = kind;
    if (holder[last] !== kind) throw new HttpError(422, `${this.#typeKey} of the record is not \`${kind}\``);
    return record;
  }

  /** The expression for a kind and values at paths. */
  #where(kind: string, query: readonly (readonly [string, string])[]): string {
    const ofKind = `["EQ",${JSON.stringify(this.#typeKey)},${JSON.stringify(`'${kind}`)}]`;
    if (query.length === 0) return ofKind;
    const conditions = query.map(([path, value]) => `,["EQ",${JSON.stringify(path)},${operand(value)}]`);
    return `["AND",${ofKind}${conditions.join('')}]`;
  }
}

function missing(kind: string, ref: Reference): HttpError {
  return new HttpError(404, `there is no record ${String(ref)} of kind ${kind}`);
}

/** A value of a query as TQL has it. */
function operand(value: string): string {
  if (NUMBER.test(value)) return value;
  return JSON.stringify(value.startsWith("'") || DETECTED.test(value) ? value : `'${value}`);
}

function names(list: string | null, tag: string): boolean {
  if (list === null) return false;
  return list.split(',').some((named) => ['*', tag].includes(named.trim()));
}
