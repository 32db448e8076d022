/** Serves in the protocol selected by the server. */
import type { LoadedHandler } from '../handler.js';
import { unsupported } from '../supported.js';
import { PROTOCOL } from '../wire.js';
import { setupOfProcess, serveFrames } from '../worker/framed.js';
import type { Init } from '../worker/engine.js';
import { environment, exitWithError } from '../worker/lifecycle.js';
import { jsonl } from './jsonl.js';
import { Messages } from './messages.js';
import { openPipeLink } from './pipes.js';
import { wabur } from './wabur.js';

/** Serves the handler that `load` loads; waits for `prepared` before importing it. */
export function run(prepared: Promise<void>, load: (init: Init | null) => Promise<LoadedHandler>): void {
  const reason = unsupported(process.versions);
  if (reason !== undefined) exitWithError(reason);
  const protocol = environment('FOREBAY_PROTOCOL');
  if (protocol === 'jsonl') new Messages(jsonl, prepared, () => load(null));
  else if (protocol === 'wabur') new Messages(wabur, prepared, () => load(null));
  else if (protocol !== String(PROTOCOL)) exitWithError(`FOREBAY_PROTOCOL is "${protocol}"; this SDK knows "${PROTOCOL}", "jsonl" and "wabur"`);
  else if (process.env['FOREBAY_LINK'] !== 'stdio') exitWithError('the link is a socket; give the pool `link = "stdio"` or a `handler`');
  else void serveFrames(setupOfProcess(), openPipeLink, load, prepared);
}
