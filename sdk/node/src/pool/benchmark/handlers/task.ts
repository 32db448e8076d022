/** The handler in the form that Piscina and Tinypool call, in a thread or a process. */
import { threadId } from 'node:worker_threads';
import { handle } from './selected-handler.js';

const context = { worker: { id: threadId === 0 ? process.pid : threadId } };

export default function task(message: never): unknown {
  return handle(message, context);
}
