import { fileURLToPath } from 'node:url';
import { runToEnd } from '../processes.mjs';

const PROGRAM = fileURLToPath(new URL('main.mjs', import.meta.url));

/** Runs an open-loop plan (see generator.mjs) against `server`, in a separate process. */
export async function runOpenLoop(server, plan) {
  const full = { ...plan, port: Number(new URL(server.url).port) };
  return JSON.parse(await runToEnd('open-loop generator', process.execPath, [PROGRAM, JSON.stringify(full)]));
}
