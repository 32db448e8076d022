/**
 * The program that the server starts for each Node or Bun worker: opens the link, shakes hands, loads the handler and serves requests.
 */
import { installResolver } from './loader/install.js';
import { unsupported } from './supported.js';
import { placeOfProcess, serveFrames } from './worker/framed.js';
import { endWith, environment, giveUp, loadHandlers } from './worker/life.js';
import { openLink } from './worker/link.js';

const complaint = unsupported(process.versions);
if (complaint !== undefined) giveUp(complaint);
const parent = process.env['FOREBAY_PARENT'];
if (parent !== undefined) endWith(Number(parent));
/** INIT may arrive before the resolver is installed; the handler is imported after both. */
const resolver = installResolver();
const fd = Number(environment('FOREBAY_LINK_FD'));
await serveFrames(
  placeOfProcess(),
  (events) => openLink(fd, events),
  loadHandlers,
  resolver,
);
