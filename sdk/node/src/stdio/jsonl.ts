/** One JSON object a line: protocol/PROTOCOL.md, section 7. */
import { CONTENT_TYPES, KIND_BYTES, KIND_JSON, KIND_NONE, KIND_TEXT, type RequestParts } from '../wire.js';
import { between, headerPairs, jsonOf, oneLine, textOf, type Dialect, type Incoming } from './dialect.js';
import type { Outcome } from './gateway.js';

interface Request {
  readonly id: number;
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly route: string;
  readonly peer: string;
  readonly remaining_ms: number;
  readonly params: Record<string, string>;
  readonly headers: [string, string][];
  readonly body?: string;
  readonly body_base64?: string;
}

export const jsonl: Dialect = {
  read(message): Incoming {
    if ('call' in message) return { is: 'result', call: message['call'], result: message['result'] };
    const request = message as unknown as Request;
    return { is: 'request', id: request.id, parts: parts(request) };
  },

  answer(id, { status, kind, headers, body }) {
    let text = `{"id":${id}`;
    if (status !== 200) text += `,"status":${status}`;
    return `${text}${content(kind, headers, body)}}\n`;
  },

  failed: (id, why) => `{"id":${id},"status":500,"body":${JSON.stringify(why)}}\n`,
  call: (id, text) => `{"call":${id},"tql":${oneLine(text)}}\n`,
  result: (id, message) => between(message, `{"call":${id},"result":`, '}'),
  log: (line) => `{"log":${JSON.stringify(line)}}\n`,
};

const NOTHING: readonly string[] = [];
const NO_BODY = Buffer.alloc(0);

function parts(request: Request): RequestParts {
  const { method, path, query, route, peer, remaining_ms, params, headers, body, body_base64 } = request;
  const flat: string[] = [];
  for (const [name, value] of headers) flat.push(name, value);
  let named: string[] | undefined;
  for (const name in params) (named ??= []).push(name, params[name]!);
  return {
    remainingMs: remaining_ms,
    method,
    path,
    query,
    route,
    params: named ?? NOTHING,
    headers: flat,
    peer,
    body: body_base64 !== undefined ? Buffer.from(body_base64, 'base64') : body === undefined || body === '' ? NO_BODY : Buffer.from(body),
  };
}

/** The members for headers and body. */
function content(kind: number, headers: readonly string[], body: Outcome['body']): string {
  if (kind === KIND_JSON && body.length > 0) {
    const json = jsonOf(body);
    // A line end would end the message.
    if (!json.includes('\n') && !json.includes('\r')) return `${headers.length === 0 ? '' : headersMember(headerPairs(headers))},"json":${json}`;
  }
  const pairs = headerPairs(headers);
  let text: string | null = null;
  let member = '';
  if (body.length > 0) {
    text = kind === KIND_BYTES ? null : textOf(body);
    member = text === null ? `,"body_base64":"${Buffer.from(body).toString('base64')}"` : `,"body":${JSON.stringify(text)}`;
  }
  const implied = body.length === 0 ? KIND_NONE : text === null ? KIND_BYTES : KIND_TEXT;
  const type = CONTENT_TYPES[kind];
  if (type !== undefined && kind !== implied) pairs.unshift(['content-type', type]);
  return headersMember(pairs) + member;
}

function headersMember(pairs: readonly [string, string][]): string {
  return pairs.length === 0 ? '' : `,"headers":${JSON.stringify(pairs)}`;
}
