/** The jsonl dialect, one JSON object per line (protocol/PROTOCOL.md, section 7). */
import type { Message } from '../source.js';
import { CONTENT_TYPES, KIND_BYTES, KIND_JSON, KIND_NONE, KIND_TEXT } from '../wire.js';
import { between, jsonOf, oneLine, textOf, type Dialect, type ServerMessage } from './dialect.js';
import type { Outcome } from './gateway.js';

interface Request extends Message {
  readonly id: number;
}

export const jsonl: Dialect = {
  read(message): ServerMessage {
    if ('call' in message) return { is: 'result', call: message['call'], result: message['result'] };
    const request = message as unknown as Request;
    return { is: 'request', id: request.id, request };
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

/** The members for headers and body of a response. */
function content(kind: number, headers: readonly string[], body: Outcome['body']): string {
  if (kind === KIND_JSON && body.length > 0) {
    const json = jsonOf(body);
    // A line end would end the message.
    if (!json.includes('\n') && !json.includes('\r')) return `${headersMember(headers)},"json":${json}`;
  }
  let text: string | null = null;
  let member = '';
  if (body.length > 0) {
    text = kind === KIND_BYTES ? null : textOf(body);
    member = text === null ? `,"body_base64":"${Buffer.from(body).toString('base64')}"` : `,"body":${JSON.stringify(text)}`;
  }
  const implied = body.length === 0 ? KIND_NONE : text === null ? KIND_BYTES : KIND_TEXT;
  const type = CONTENT_TYPES[kind];
  const typed = type !== undefined && kind !== implied ? ['content-type', type, ...headers] : headers;
  return headersMember(typed) + member;
}

/** The `headers` member for `[name, value, ...]`. */
function headersMember(headers: readonly string[]): string {
  if (headers.length === 0) return '';
  let pairs = '';
  for (let index = 0; index < headers.length; index += 2) {
    pairs += `${pairs === '' ? '' : ','}[${JSON.stringify(headers[index]!)},${JSON.stringify(headers[index + 1]!)}]`;
  }
  return `,"headers":[${pairs}]`;
}
