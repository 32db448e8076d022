/** Requests to other servers, within the limits of the configuration. */
import { host } from '../host.js';
import { cancelOperation, step, waitFor } from '../pending-operations.js';
import { Request, Response, type RequestInit } from './messages.js';
import { ReadableStream, type Controller } from './streams.js';

/** Statuses whose responses have no body. */
const BODILESS = [101, 103, 204, 205, 304];

export async function fetch(input: unknown, init?: RequestInit | null): Promise<Response> {
  const request = new Request(input, init);
  const { signal, method } = request;
  signal.throwIfAborted();
  const hasBody = method !== 'GET' && method !== 'HEAD';
  const body = hasBody ? await request.bytes() : null;
  const head = [method, request.url, request.redirect, ...[...request.headers].flat()];
  return new Promise((resolve, reject) => {
    const abort = () => {
      cancelOperation(wait);
      reject(signal.reason as Error);
    };
    const wait = waitFor(
      (error, value) => {
        signal.removeEventListener('abort', abort);
        if (error === null) resolve(answered(wait, value as [number, string, string, boolean, ...string[]], request));
        else reject(error);
      },
      (call, number) => host.fetch(call, number, head, body !== null && body.length > 0 ? body : null),
    );
    signal.addEventListener('abort', abort, { once: true });
  });
}

function answered(
  fetch: number,
  [status, statusText, url, redirected, ...fields]: [number, string, string, boolean, ...string[]],
  { method, signal }: Request,
): Response {
  const headers: [string, string][] = [];
  for (let at = 0; at < fields.length; at += 2) headers.push([fields[at]!, fields[at + 1]!]);
  const isEmpty = method === 'HEAD' || BODILESS.includes(status);
  return Response.fetched(isEmpty ? null : streamOf(fetch, signal), { status, statusText, headers }, { url, redirected });
}

function streamOf(fetch: number, signal: Request['signal']): ReadableStream {
  const call = step.call;
  let source: Controller;
  const abort = () => {
    host.closeFetch(call, fetch);
    source.error(signal.reason);
  };
  const over = () => signal.removeEventListener('abort', abort);
  const pull = (controller: Controller) =>
    new Promise<void>((resolve, reject) => {
      waitFor(
        (error, piece) => {
          if (error !== null) {
            over();
            reject(error);
            return;
          }
          if (piece === null) {
            over();
            controller.close();
          } else {
            controller.enqueue(piece);
          }
          resolve();
        },
        (_, wait) => host.read(call, wait, fetch),
      );
    });
  return new ReadableStream(
    {
      start(controller) {
        source = controller;
        signal.addEventListener('abort', abort, { once: true });
      },
      pull,
      cancel() {
        over();
        host.closeFetch(call, fetch);
      },
    },
    { highWaterMark: 0 },
  );
}
