// Starts the JavaScript peers: each prints `listening on URL` once it is.

import { launch } from '../processes.mjs';

const START_TIMEOUT_MS = 15_000;

/** Starts a program that prints its address, and waits for that line. */
export async function startListening(name, command, args) {
  const process_ = launch(name, command, args, { env: { PATH: process.env.PATH, NODE_ENV: 'production' } });
  const [, url] = await process_.waitForOutput(/listening on (http:\S+)/, START_TIMEOUT_MS);
  return { process: process_, url };
}
