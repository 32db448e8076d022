/** The program that the server starts for a pool with a `handler` on standard input and output. */
import { installResolver } from '../loader/install.js';
import { environment, loadFile } from '../worker/lifecycle.js';
import { run } from './run.js';

run(installResolver(), (init) => loadFile(init === null ? environment('FOREBAY_HANDLER') : init.handler));
