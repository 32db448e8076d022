/** The dialect of WABuR (protocol/PROTOCOL.md, section 8). */
import type { Message } from '../source.js';
import { CONTENT_TYPES, KIND_JSON } from '../wire.js';
import { between, headerPairs, jsonOf, oneLine, textOf, type Dialect, type ServerMessage } from './dialect.js';

const METHODS: Readonly<Record<string, string>> = { NEW: 'PUT', GET: 'GET', MOD: 'POST', DEL: 'DELETE' };
/** The method for messages without a known operation, which go to the controller's fallback. */
const FALLBACK = 'HANDLE';
const JSON_TYPE: [string, string] = ['content-type', 'application/json'];
const NO_BODY = 'No body in request.';

export const wabur: Dialect = {
  read(message, text): ServerMessage {
    const rid = message['rid'];
    const api = message['api'];
    const body = message['body'];
    if (api === 1) {
      const id = String(rid);
      if (typeof body !== 'object' || body === null) return { is: 'refused', id, why: NO_BODY };
      return { is: 'request', id, request: request(id, body as Record<string, unknown>, message, text) };
    }
    if (api === 4) return { is: 'result', call: rid, result: body };
    if (api === 5) return { is: 'reply', text: `${JSON.stringify({ rid, api: 6, body: { code: 0 } })}\n` };
    if (typeof api === 'number' && api < 0) return { is: 'stop', now: api === -9 };
    return { is: 'nothing' };
  },

  answer(id, { status, kind, headers, body }) {
    const rid = JSON.stringify(id);
    if (status === 200 && kind === KIND_JSON && headers.length === 0 && body.length > 0) {
      return `{"rid":${rid},"api":2,"body":${oneLine(jsonOf(body))}}\n`;
    }
    const pairs = headerPairs(headers);
    const type = CONTENT_TYPES[kind];
    if (type !== undefined && kind !== KIND_JSON) pairs.unshift(['content-type', type]);
    const contentType = pairs.find(([name]) => name === 'content-type')?.[1];
    const text = textOf(body);
    if (text === null) return wabur.failed(id, 'the answer is not text, and a message of this protocol has nothing else');
    const isJson = contentType === undefined ? kind === KIND_JSON : /json/i.test(contentType);
    const content = body.length === 0 ? 'null' : isJson ? oneLine(text) : JSON.stringify(text);
    const more = pairs.length === 0 ? '' : `,"headers":${JSON.stringify(pairs)}`;
    return `{"rid":${rid},"api":2,"body":${content},"status":${status}${more}}\n`;
  },

  failed: (id, why) => `${JSON.stringify({ rid: id, api: 2, body: { code: -1, error: why } })}\n`,
  call: (id, text) => `{"rid":"${id}","api":3,"body":${oneLine(text)}}\n`,
  result: (id, message) => between(message, `{"rid":"${id}","api":4,"body":`, '}'),
  log: (line) => `${JSON.stringify({ api: 5, body: line })}\n`,
};

function request(id: string, body: Record<string, unknown>, message: Record<string, unknown>, text: string): Message {
  const op = body['op'];
  const headers: [string, string][] = [
    ['host', 'localhost'],
  ];
  const requestId = id.slice(id.indexOf('.') + 1);
  if (typeof op !== 'string') {
    return made(requestId, FALLBACK, '/', '', [...headers, JSON_TYPE], JSON.stringify(body));
  }
  const path = Array.isArray(body['path']) ? body['path'] : [];
  const { query, content } = body;
  const pairs = Object.entries(typeof query === 'object' && query !== null ? query : {});
  if (content !== undefined) headers.push(JSON_TYPE);
  return made(
    requestId,
    Object.hasOwn(METHODS, op) ? METHODS[op]! : op,
    `/${path.map((part) => encodeURIComponent(String(part))).join('/')}`,
    new URLSearchParams(pairs.map(([name, value]): [string, string] => [name, String(value)])).toString(),
    headers,
    content === undefined ? '' : contentText(body, message, text),
  );
}

/** The original text of the content, which keeps numbers exact, or the re-encoded value if it cannot be cut out of the message. */
function contentText(body: Record<string, unknown>, message: Record<string, unknown>, text: string): string {
  const name = ',"content":';
  const isLast = Object.keys(message).at(-1) === 'body' && Object.keys(body).at(-1) === 'content' && text.endsWith('}}');
  const query = body['query'];
  const isAlone = typeof query !== 'object' || query === null || !Object.hasOwn(query, 'content');
  const at = text.indexOf(name);
  if (isLast && isAlone && at > 0) return text.slice(at + name.length, -2);
  return JSON.stringify(body['content']);
}

function made(requestId: string, method: string, path: string, query: string, headers: Message['headers'], body: string): Message {
  return { remaining_ms: 0, method, path, query, route: '/*', params: {}, headers, peer: '', request_id: requestId, body };
}
