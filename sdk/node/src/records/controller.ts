/** The default implementation of operations on records by kind, and their responses. */
import { HttpError, Reply, TAG_LENGTH, failedReply } from '../reply.js';
import type { WireRequest } from '../request.js';
import { StoreError, type StoreErrorCode } from '../store/error.js';
import { jsonText } from '../store/json.js';
import { KIND_JSON, KIND_NONE } from '../wire.js';
import { allows, type Change, type Conditions, type Model } from './model.js';
import type { Records } from './index.js';
import type { Call } from './rest.js';

/** The status of errors that are not the request's fault; they are logged. */
const FAULT = 500;
const STATUSES: Readonly<Record<StoreErrorCode, number>> = {
  key: 400,
  not_json: 400,
  json: 400,
  not_text: 400,
  tql_syntax: 400,
  page_max: 400,
  cursor: 400,
  no_record: 404,
  not_unique: 409,
  already_exists: 409,
  reference_taken: 409,
  value_too_long: 413,
  answer_bytes_max: 413,
  tql_meaning: 422,
  not_an_object: 422,
  kind: 422,
  number_too_long: 422,
  not_a_number: 422,
  examined_max: 422,
  rows_max: 422,
  work_max: 422,
  limit: 422,
  too_many_readers: 503,
  snapshot_too_old: 503,
  not_settled: 503,
  database_unreachable: 503,
  database_late: 503,
  database_read_only: 503,
  database_full: 503,
  conflict: 503,
  moved: 503,
  given_up: 504,
  deadline: 504,
  change_time_max: 504,
  full: 507,
  no_reference_left: 507,
  overlap: FAULT,
  read_only: FAULT,
  in_snapshot: FAULT,
  async_transaction: FAULT,
  aborted: FAULT,
  broken: FAULT,
  no_transaction: FAULT,
  no_snapshot: FAULT,
  busy: FAULT,
  closed: FAULT,
  no_store: FAULT,
  not_allowed: FAULT,
  denied: FAULT,
  absent: FAULT,
  open_already: FAULT,
  in_use: FAULT,
  database_address: FAULT,
  database: FAULT,
  commit_unknown: FAULT,
  in_database: FAULT,
  copy: FAULT,
  unrecovered: FAULT,
  log_without_tree: FAULT,
  foreign_log: FAULT,
  format: FAULT,
  index: FAULT,
  writes_already: FAULT,
  too_many_locks: FAULT,
  replay: FAULT,
  changes_gone: FAULT,
  not_flushed: FAULT,
  flushes_fail: FAULT,
  in_doubt: FAULT,
  damaged: FAULT,
  file: FAULT,
  unsupported: FAULT,
  engine: FAULT,
  malformed: FAULT,
};
const NO_HEADERS: readonly string[] = [];
const NOTHING = '{"code":0,"results":[]}';
const FREE: Conditions = { match: null, noneMatch: null };

/** The settings of a {@link Controller}. */
export interface Settings {
  readonly prefix: string;
  readonly typeKey: string;
  /** Whether to respond as WABuR's runner does, with 200 or 500 only. */
  readonly isWabur: boolean;
  readonly records: Records;
}

/** An error in WABuR's form; `of` is its class there. */
export class WaburError extends Error {
  readonly of: string;

  constructor(message: string, of = 'WAB::Error', options?: ErrorOptions) {
    super(message, options);
    this.of = of;
  }
}

export class Controller {
  readonly #model: Model;
  readonly settings: Settings;

  constructor(model: Model, settings: Settings) {
    this.#model = model;
    this.settings = settings;
  }

  create({ kind, refText, query }: Call, data: unknown, text: string | undefined): Reply {
    if (refText !== '' && !this.settings.isWabur) {
      throw new HttpError(405, 'PUT makes a record, whose reference is given to it', { headers: { allow: 'DELETE, GET, HEAD, PATCH, POST' } });
    }
    const document = this.#ofKind(kind, data, text);
    const where = query.length === 0 ? '' : `"where":${this.#where(kind, query)},`;
    const body = this.#asked(`{${where}"insert":${document}}`, kind, 'create');
    if (this.settings.isWabur) return answer(body);
    const { ref } = JSON.parse(body) as { ref: number };
    return new Reply(201, KIND_JSON, ['location', `${this.settings.prefix}/${encodeURIComponent(kind)}/${ref}`], body);
  }

  read(call: Call): Reply {
    const { kind, refText } = call;
    if (refText !== '') return this.readOne(call.request, kind, refText);
    const { isList, query } = call;
    if (isList) {
      const columns = query.map(([alias, path]) => `,${JSON.stringify(alias)}:${JSON.stringify(path)}`);
      return answer(this.#asked(`{"where":${this.#where(kind, [])},"select":{"ref":"$ref"${columns.join('')}}}`, kind, 'read'));
    }
    return answer(this.#asked(`{"where":${this.#where(kind, query)},"select":{"id":"$ref","data":"$"}}`, kind, 'read'));
  }

  /** Responds with one record in its stored form. */
  readOne(request: Call['request'], kind: string, reference: string): Reply {
    const { isWabur } = this.settings;
    const model = this.#model;
    const answered = model.answer === undefined ? null : model.answer(reference, kind, isWabur);
    const found = answered === null ? model.read(reference, kind) : answered;
    if (found === undefined) {
      if (isWabur) return answer(NOTHING);
      throw missing(kind, reference);
    }
    if (typeof found === 'object') return found;
    const body = `{"code":0,"results":[{"id":${reference},"data":${found.slice(TAG_LENGTH)}}]}`;
    if (isWabur) return answer(body);
    const etag = found.slice(0, TAG_LENGTH);
    const conditions = conditionsOf(request);
    if (conditions !== FREE && !allows(conditions, etag)) {
      if (!allows({ ...conditions, noneMatch: null }, etag)) throw preconditionFailed();
      return new Reply(304, KIND_NONE, ['etag', etag], null);
    }
    return new Reply(200, KIND_JSON, ['etag', etag], body);
  }

  update(call: Call, data: unknown, text: string | undefined): Reply {
    const { kind, refText, query } = call;
    const isPatch = call.request.method === 'PATCH';
    if (refText !== '') {
      if (isPatch) return this.#change(call, 'patch', text ?? jsonText(data));
      return this.#change(call, 'update', this.#ofKind(kind, data, text));
    }
    if (isPatch) throw new HttpError(400, 'a patch is for one record: its reference is missing');
    if (query.length === 0) {
      if (this.settings.isWabur) throw new WaburError(`update on all ${kind} not allowed.`);
      throw new HttpError(400, 'an update says by a reference or a query which records it concerns');
    }
    const document = this.#ofKind(kind, data, text);
    return answer(this.#asked(`{"where":${this.#where(kind, query)},"update":${document}}`, kind, 'update'));
  }

  delete(call: Call): Reply {
    const { kind, refText, query } = call;
    if (refText !== '') return this.#change(call, 'delete', undefined);
    return answer(this.#asked(`{"where":${this.#where(kind, query)},"delete":null}`, kind, 'delete'));
  }

  #change({ request, kind, refText }: Call, change: Change, document: string | undefined): Reply {
    const { isWabur } = this.settings;
    const result = this.#model.change(change, refText, kind, document, isWabur ? FREE : conditionsOf(request));
    if (result === 'precondition_failed') throw preconditionFailed();
    if (result === 'kind_changed') throw this.#otherKind(kind);
    if (result === 'missing' && !isWabur) throw missing(kind, refText);
    return answer(`{"code":0,"${change === 'delete' ? 'deleted' : 'updated'}":[${result === 'done' ? refText : ''}]}`);
  }

  /** Executes a statement; returns the JSON text of the answer. */
  #asked(statement: string, kind: string, operation: string): string {
    try {
      return this.#model.tql(statement);
    } catch (error) {
      if (!this.settings.isWabur || !(error instanceof StoreError)) throw error;
      const message = error.code === 'already_exists' ? 'Already exists.' : error.message;
      throw new WaburError(`error on ${kind} ${operation}. ${message}`, undefined, { cause: error });
    }
  }

  /**
   * The JSON of a record to be written, with the kind of the path added if it has none. The original text is kept if it is known, because
   * JavaScript's numbers cannot represent all of JSON's.
   */
  #ofKind(kind: string, data: unknown, text: string | undefined): string {
    if (typeof data !== 'object' || data === null || Array.isArray(data)) throw new HttpError(422, 'a record is a JSON object');
    const steps = this.settings.typeKey.split('.');
    const documentKind = steps.reduce<unknown>((place, step) => memberOf(place, step), data);
    if (documentKind === kind) return text ?? jsonText(data);
    if (documentKind !== undefined) throw this.#otherKind(kind);
    if (memberOf(data, steps[0]!) !== undefined) return jsonText(this.#withKind(data, steps, kind));
    const document = (text ?? jsonText(data)).trimStart();
    const member = steps.reduceRight((value, step, index) => (index === 0 ? value : `{${JSON.stringify(step)}:${value}}`), JSON.stringify(kind));
    return `{${JSON.stringify(steps[0])}:${member}${Object.keys(data).length === 0 ? '' : ','}${document.slice(1)}`;
  }

  #withKind(data: object, [first, ...further]: string[], kind: string): object {
    if (further.length === 0) return { ...data, [first!]: kind };
    const below = memberOf(data, first!) ?? {};
    if (typeof below !== 'object' || Array.isArray(below)) throw this.#otherKind(kind);
    return { ...data, [first!]: this.#withKind(below, further, kind) };
  }

  #otherKind(kind: string): HttpError {
    return new HttpError(422, `${this.settings.typeKey} of the record is not \`${kind}\``);
  }

  /** The TQL expression for a kind and values at paths. */
  #where(kind: string, query: Call['query']): string {
    const ofKind = `["EQ",${JSON.stringify(this.settings.typeKey)},${JSON.stringify(`'${kind}`)}]`;
    if (query.length === 0) return ofKind;
    const conditions = query.map(([path, value]) => `,["EQ",${JSON.stringify(path)},${operand(value)}]`);
    return `["AND",${ofKind}${conditions.join('')}]`;
  }

  /** The response to an operation that failed: rethrown with the equivalent HTTP status, or in WABuR's form. */
  refused(error: unknown): Reply {
    if (this.settings.isWabur) {
      const isOurs = error instanceof WaburError || error instanceof HttpError || error instanceof StoreError;
      if (!isOurs) return failedReply({ code: -1, error: 'StandardError: the handler failed' }, 500, error);
      const of = error instanceof WaburError ? error.of : 'WAB::Error';
      return new Reply(500, KIND_JSON, NO_HEADERS, jsonText({ code: -1, error: `${of}: ${error.message}` }));
    }
    // A server of another version may use codes that are unknown here.
    const status = (error instanceof StoreError ? STATUSES[error.code] : FAULT) ?? FAULT;
    throw status === FAULT ? error : new HttpError(status, (error as Error).message, { cause: error });
  }
}

function answer(body: string): Reply {
  return new Reply(200, KIND_JSON, NO_HEADERS, body);
}

function conditionsOf(request: Call['request']): Conditions {
  const wire = request as WireRequest;
  const match = wire.field('if-match');
  const noneMatch = wire.field('if-none-match');
  return match === null && noneMatch === null ? FREE : { match, noneMatch };
}

function missing(kind: string, reference: string): HttpError {
  return new HttpError(404, `there is no record ${reference} of kind ${kind}`);
}

function preconditionFailed(): HttpError {
  return new HttpError(412, 'precondition failed: If-Match or If-None-Match does not hold');
}

function memberOf(place: unknown, name: string): unknown {
  if (typeof place !== 'object' || place === null || Array.isArray(place)) return place === undefined ? undefined : null;
  return Object.hasOwn(place, name) ? (place as Record<string, unknown>)[name] : undefined;
}

const NUMBER = /^-?\d*\.?\d+(?:[eE][-+]?\d+)?$/;
const DETECTED = /^([0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d))$/;

/**
 * A query value as a TQL operand: a number if it looks like one by WABuR's rules (`007` and `.5` do), otherwise text, which may state its
 * own type.
 */
function operand(value: string): string {
  if (NUMBER.test(value)) return value.replace(/^(-?)0+(?=\d)/, '$1').replace(/^(-?)\./, '$10.');
  return JSON.stringify(value.startsWith("'") || DETECTED.test(value) ? value : `'${value}`);
}
