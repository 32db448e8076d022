/**
 * The program that the server starts for each Node or Bun worker: opens the link, shakes hands, loads the handler and serves requests.
 */
import { installResolver } from './loader/install.js';
import { unsupported } from './supported.js';
import { setupOfProcess, serveFrames } from './worker/framed.js';
import { dieWithParent, environment, exitWithError, loadHandlers } from './worker/lifecycle.js';
import { openLink } from './worker/link.js';

const reason = unsupported(process.versions);
if (reason !== undefined) exitWithError(reason);
const parent = process.env['FOREBAY_PARENT'];
if (parent !== undefined) dieWithParent(Number(parent));
/** INIT may arrive before the resolver is installed; the handler is imported after both. */
const resolver = installResolver();
const fd = Number(environment('FOREBAY_LINK_FD'));
await serveFrames(
  setupOfProcess(),
  (events) => openLink(fd, events),
  loadHandlers,
  resolver,
);
