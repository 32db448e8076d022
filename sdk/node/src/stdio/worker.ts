/** The program that the server starts for a pool whose `handler` is to run on standard input and output. */
import { installResolver } from '../loader/install.js';
import { environment, loadFile } from '../worker/life.js';
import { run } from './run.js';

run(installResolver(), (init) => loadFile(init === null ? environment('FOREBAY_HANDLER') : init.handler));
