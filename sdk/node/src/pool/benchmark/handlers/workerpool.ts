/** A worker program for workerpool, which registers the handler with the same package that the pool uses. */
import { threadId } from 'node:worker_threads';
import { handle } from './selected-handler.js';
import { WORKERPOOL_VARIABLE } from './variables.js';

const context = { worker: { id: threadId === 0 ? process.pid : threadId } };

interface Workerpool {
  worker(methods: Record<string, (message: never) => unknown>): void;
}

const entry = process.env[WORKERPOOL_VARIABLE];
if (entry !== undefined) {
  const { default: workerpool } = (await import(entry)) as { default: Workerpool };
  workerpool.worker({ benchmark: (message) => handle(message, context) });
}
