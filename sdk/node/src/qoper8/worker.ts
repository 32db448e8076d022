/** The module run by workers of a QOper8 pool: dispatches messages to QOper8 handlers by type. */
import type { WorkerContext } from '../context.js';
import { messages, type MessageHandler } from '../messages.js';
import { Self } from './self.js';
import type { Control, HandlerEntry, Setup } from './setup.js';

/** Filled at startup; handlers are loaded with the first message of their type. */
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
