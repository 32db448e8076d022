// What the page asks of the server, and what becomes of its answers. References are texts of digits throughout.
import { Exact, parse, stringify } from './json.mjs';

const PATIENCE_MS = 30_000;

/** Why something could not be done, in words for the person at the page. */
export class Failure extends Error {
  constructor(message, { status = 0, hint } = {}) {
    super(message);
    Object.assign(this, { status, hint });
  }
}

/** One page of a kind's records: rows of a reference and the values at the paths, and whether there are more. */
export async function list(kind, { paths, sort, search, page, size, signal }) {
  const where = search === undefined ? ofKind(kind) : ['AND', ofKind(kind), search];
  const statement = (select, page) => ({ where, select, ...(sort === undefined ? {} : { sort }), page });
  const { results } = await tql(statement(['$ref', ...paths], [new Exact(`${size}`), new Exact(`${page}`)]), signal);
  const rows = results.map(([ref, ...values]) => ({ ref: ref.text, values }));
  if (rows.length < size) return { rows, more: false };
  // The record behind this page is the whole of a page of one.
  const behind = await tql(statement('$ref', [new Exact('1'), new Exact(`${(page + 1) * size}`)]), signal);
  return { rows, more: behind.results.length > 0 };
}

/** How many records a kind has, and whether there are more than were counted. */
export async function count(kind, signal) {
  const { plan } = await tql({ where: ofKind(kind), explain: true }, signal);
  return { count: Number(plan.examined.text), more: plan.more };
}

/** What records of a kind are called by: a map from references to values. */
export async function names(kind, path, refs, signal) {
  if (refs.length === 0) return new Map();
  const found = await Promise.all(refs.map((ref) => tql({ where: new Exact(ref), filter: ofKind(kind), select: path }, signal)));
  return new Map(found.flatMap(({ results }, at) => (results.length === 1 ? [[refs[at], results[0]]] : [])));
}

/** A record and its tag; undefined when there is none. */
export async function read(kind, ref, signal) {
  try {
    const { body, tag } = await ask('GET', address(kind, ref), { signal });
    return { data: body.results[0].data, tag };
  } catch (error) {
    if (error.status === 404) return undefined;
    throw error;
  }
}

/** Makes a record, and gives its reference. */
export async function create(kind, data) {
  const { body } = await ask('PUT', address(kind), { body: data });
  return body.ref.text;
}

/** Replaces a record if it still has this tag; false when it has another one by now, undefined when it is gone. */
export function replace(kind, ref, data, tag) {
  return guarded('POST', kind, ref, tag, data);
}

/** Removes a record; answers as {@link replace} does. */
export function remove(kind, ref, tag) {
  return guarded('DELETE', kind, ref, tag);
}

async function guarded(method, kind, ref, tag, body) {
  try {
    await ask(method, address(kind, ref), { body, headers: { 'if-match': tag } });
    return true;
  } catch (error) {
    if (error.status === 412) return false;
    if (error.status === 404) return undefined;
    throw error;
  }
}

function address(kind, ref) {
  return `/v1/${encodeURIComponent(kind)}${ref === undefined ? '' : `/${ref}`}`;
}

function ofKind(kind) {
  return ['EQ', 'kind', `'${kind}`];
}

async function tql(statement, signal) {
  return (await ask('POST', '/tql', { body: statement, headers: { 'content-type': 'application/json' }, signal })).body;
}

async function ask(method, path, { body, headers = {}, signal } = {}) {
  const limit = AbortSignal.timeout(PATIENCE_MS);
  let response;
  let text;
  try {
    response = await fetch(path, {
      method,
      headers: { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? undefined : stringify(body),
      signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    if (limit.aborted) throw new Failure('The server does not answer.', { hint: 'It may be busy. Nothing is known of what it has done: look before you try again.' });
    throw new Failure('The server cannot be reached.', { hint: 'It may be starting anew. Try again in a moment.' });
  }
  let read;
  try {
    read = text === '' ? undefined : parse(text);
  } catch {
    read = undefined;
  }
  if (!response.ok) throw refusal(response, read);
  if (read === undefined && text !== '') throw new Failure('The server has answered something that this page cannot read.');
  return { body: read, tag: response.headers.get('etag') };
}

/** Problem documents (RFC 9457) in words. */
function refusal(response, problem) {
  const { status } = response;
  const text = (value) => (typeof value === 'string' && value !== '' ? value : undefined);
  const detail = text(problem?.detail) ?? text(problem?.error);
  const id = text(problem?.request_id) ?? response.headers.get('x-request-id');
  const because = detail === undefined ? undefined : `The server says: ${detail}.`;
  const known = {
    401: 'You have to sign in first.',
    403: 'You may not do this here.',
    404: 'There is nothing here.',
    405: 'This is not open here.',
    409: 'Another record has this already.',
    412: 'Somebody else has changed the record.',
    413: 'The record is too large.',
    422: 'The server does not accept this.',
    429: 'Too much was asked at once. Try again in a moment.',
    503: 'The server is busy. Try again in a moment.',
    504: 'This took the server too long.',
    507: 'The server has no room left.',
  };
  const message = known[status] ?? (status >= 500 ? 'The server could not do this.' : 'The server has refused this.');
  const log = status >= 500 && id ? `Its log says more under the request ${id}.` : undefined;
  return new Failure(message, { status, hint: [because, log].filter(Boolean).join(' ') || undefined });
}
