// Start and stop hooks for the pool tests.
import { appendFileSync } from 'node:fs';

export async function onStart(ctx) {
  await null;
  ctx.state.started = (ctx.state.started ?? 0) + 1;
  ctx.state.from = 'the start hook';
}

export function onStop(ctx) {
  if (process.env.POOL_STOPS !== undefined) appendFileSync(process.env.POOL_STOPS, `${ctx.worker.id}\n`);
}
