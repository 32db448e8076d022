/** The module that workers of a QOper8 pool run: handlers as they are written for QOper8, by type of message. */
import type { WorkerContext } from '../context.js';
import { messages, type MessageHandler } from '../messages.js';
import { Self } from './self.js';
import type { Control, HandlerEntry, Setup } from './setup.js';

/** Filled at the start: handlers are looked up when the first message of their type comes. */
const table: Record<string, MessageHandler> = Object.create(null) as Record<string, MessageHandler>;
let self: Self;

export default messages(table);

export async function onStart({ worker }: WorkerContext): Promise<void> {
  const setup = worker.data as Setup;
  self = new Self(setup, setup.firstId + worker.id - 1);
  table[setup.control] = (control: Control) => answer(control);
  serve(setup.handlers);
  await self.start(setup);
}

export async function onStop(): Promise<void> {
  await self.stop();
}

function serve(handlers: readonly (readonly [string, HandlerEntry])[]): void {
  for (const [type, entry] of handlers) table[type] ??= self.handlerOf(type, entry);
}

function answer(control: Control): unknown {
  if (control.ask === 'stats') return { id: self.id, report: self.report() };
  self.logging = control.logging;
  serve(control.handlers);
  return { id: self.id };
}
