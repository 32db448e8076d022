/** `http` of GoRules' functions: requests with JSON bodies, within the limits of `fetch`. */
import * as web from '../../script/web/fetch.js';
import { adapted } from '../data/client-calls.js';

/** Not the global, which rules must await. */
const fetch = web.fetch as unknown as typeof globalThis.fetch;

type Values = Readonly<Record<string, string | number | boolean>>;

interface Config {
  readonly headers?: Values | null;
  readonly params?: Values | null;
  readonly data?: unknown;
  readonly auth?: unknown;
}

/** A response, whatever its status. */
interface Received {
  readonly data: unknown;
  readonly headers: Record<string, string>;
  readonly status: number;
}

async function send(method: string, url: string, body: unknown, config: Config | null): Promise<Received> {
  const { headers, params, data = body, auth } = config ?? {};
  if (auth !== undefined && auth !== null) throw new TypeError('http: `auth` is not supported: set the header `authorization`');
  const target = new URL(url);
  for (const [name, value] of Object.entries(params ?? {})) target.searchParams.append(name, String(value));
  const sent = new Headers(Object.entries(headers ?? {}).map(([name, value]): [string, string] => [name, String(value)]));
  const init: RequestInit = { method, headers: sent };
  if (data !== undefined) {
    if (!sent.has('content-type')) sent.set('content-type', 'application/json');
    init.body = JSON.stringify(data);
  }
  const response = await fetch(target.href, init);
  const text = await response.text();
  return { data: text === '' ? null : dataOf(target.href, text), headers: Object.fromEntries(response.headers), status: response.status };
}

function dataOf(url: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new TypeError(`http: the response of ${url} is not JSON`);
  }
}

const withoutBody = (name: string) => (url: string, config: Config | null = null) => send(name.toUpperCase(), url, undefined, config);
const withBody = (name: string) => (url: string, data: unknown = null, config: Config | null = null) => send(name.toUpperCase(), url, data, config);
const methods = {
  get: withoutBody('get'),
  head: withoutBody('head'),
  delete: withoutBody('delete'),
  post: withBody('post'),
  patch: withBody('patch'),
  put: withBody('put'),
};

export const http: object = Object.fromEntries(
  Object.entries(methods).map(([name, method]) => [name, adapted(`http.${name}`, method as never)] as const),
);
