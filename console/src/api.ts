/** Requests to the server that serves this page. */
import { Cell } from './cell';
import type { Session } from './types';

const API = 'api/';
const TOKEN = 'forebay-token';
/** How long a response may take; recording and streams have their own limits. */
const TIMEOUT_MS = 30_000;
const RETRY_MS = 2_000;
/** Longest response that is kept, in characters. Documents beyond are read in parts. */
const RESPONSE_MAX = 16 << 20;

/** What this client may do; undefined until the server has said. */
export const session = new Cell<Session | undefined>(undefined);
/** Why the server does not let this client in. */
export const refusal = new Cell<ApiError | undefined>(undefined);
/** Since when the server has not answered, in milliseconds since 1970. */
export const lostSince = new Cell<number | undefined>(undefined);

/** The server has answered with an error. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly title: string,
    readonly detail: string,
  ) {
    super(detail || title);
  }
}

/** The server has not answered. */
export class ServerLost extends Error {
  constructor() {
    super('The server does not answer.');
  }
}

export interface Reply {
  status: number;
  headers: Headers;
  text: string;
}

let token = sessionStorage.getItem(TOKEN) ?? '';

interface Options {
  body?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  timeoutMs?: number;
}

/** Sends a request and gives the response before its body is read. Only what is not an error is returned; see {@link ApiError} and {@link ServerLost}. */
export async function open(method: string, path: string, { body, headers = {}, signal }: Options = {}): Promise<Response> {
  const fields: Record<string, string> = { ...headers };
  if (token) fields['authorization'] = `Bearer ${token}`;
  if (method !== 'GET') fields['forebay-console'] = '1';
  if (body !== undefined && !('content-type' in fields)) fields['content-type'] = 'application/json';
  const address = path.startsWith('/') ? path : API + path;
  let response: Response;
  try {
    response = await fetch(address, { method, headers: fields, cache: 'no-store', body: body ?? null, signal: signal ?? null });
  } catch (error) {
    if (signal?.aborted && !(signal.reason instanceof DOMException && signal.reason.name === 'TimeoutError')) throw error;
    lostSince.value ??= Date.now();
    throw new ServerLost();
  }
  lostSince.value = undefined;
  if (response.ok || response.status === 304 || path.startsWith('/health/')) return response;
  const problem = parsed(await response.text());
  const text = (name: string): string => (typeof problem[name] === 'string' ? problem[name] : '');
  const error = new ApiError(response.status, text('title') || `Status ${response.status}`, text('detail'));
  if (error.status === 401) refusal.value = error;
  throw error;
}

function parsed(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : { detail: text };
  } catch {
    return { detail: text.slice(0, 500) };
  }
}

/** Sends a request and reads the whole response. */
export async function request(method: string, path: string, options: Options = {}): Promise<Reply> {
  const deadline = AbortSignal.timeout(options.timeoutMs ?? TIMEOUT_MS);
  const signal = options.signal ? AbortSignal.any([options.signal, deadline]) : deadline;
  const response = await open(method, path, { ...options, signal });
  let text = '';
  for await (const part of parts(response)) {
    text += part;
    if (text.length > RESPONSE_MAX) throw new ApiError(413, 'Too long to show', `The response is longer than ${RESPONSE_MAX >> 20} MiB. Open a smaller part of it.`);
  }
  return { status: response.status, headers: response.headers, text };
}

/** The text of a response, as it arrives. */
export async function* parts(response: Response): AsyncGenerator<string> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) yield part.value;
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    lostSince.value ??= Date.now();
    throw new ServerLost();
  } finally {
    void reader?.cancel().catch(() => {});
  }
}

/** Reads JSON. Its shape is that of this server's version, which has served this page, too. */
export async function get<T>(path: string, options: Options = {}): Promise<T> {
  return JSON.parse((await request('GET', path, options)).text) as T;
}

export async function post<T>(path: string, body?: unknown, options: Options = {}): Promise<T> {
  const { text } = await request('POST', path, body === undefined ? options : { ...options, body: JSON.stringify(body) });
  return JSON.parse(text || 'null') as T;
}

/** Asks what this client may do, until the server answers. */
export async function openSession(): Promise<void> {
  for (;;) {
    try {
      session.value = await get<Session>('session');
      refusal.value = undefined;
      return;
    } catch (error) {
      if (error instanceof ApiError) {
        refusal.value = error;
        return;
      }
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
}

/** Uses another token from now on, if the server takes it. */
export async function takeToken(given: string): Promise<boolean> {
  const before = token;
  token = given;
  await openSession();
  const taken = refusal.value === undefined;
  if (taken) sessionStorage.setItem(TOKEN, given);
  else token = before;
  return taken;
}

// A server that was lost may come back with another configuration.
lostSince.follow(() => lostSince.value === undefined && session.value !== undefined && void openSession());

/** The path of a node of the store below `store/`. */
export const storePath = (path: readonly string[]): string => `store/${path.map(encodeURIComponent).join('/')}`;
