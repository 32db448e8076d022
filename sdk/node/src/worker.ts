/**
 * The program that the server starts for each Node or Bun worker: opens the link, shakes hands, loads the handler, serves.
 */
import { installResolver } from './loader/install.js';
import { unsupported } from './supported.js';
import { serveFrames } from './worker/framed.js';
import { environment, giveUp, loadFile } from './worker/life.js';
import { openLink } from './worker/link.js';

const complaint = unsupported(process.versions);
if (complaint !== undefined) giveUp(complaint);
/** INIT may arrive before this is done; the handler is imported after it. */
const resolver = installResolver();
const fd = Number(environment('FOREBAY_LINK_FD'));
await serveFrames(
  (events) => openLink(fd, events),
  (init) => loadFile(init.handler),
  resolver,
);
