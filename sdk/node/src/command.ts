#!/usr/bin/env node
/** The command `forebay` of the npm package: becomes the server's binary, which a package of its own carries for each platform. */

import { platformFile } from './platform.js';

try {
  const program = platformFile('forebay');
  if (process.execve === undefined) throw new Error(`Node 22.15 or newer is needed, and this is ${process.version}. Without Node, run ${program}`);
  // The same process: signals, the terminal and the exit code are the server's.
  process.execve(program, ['forebay', ...process.argv.slice(2)], process.env);
} catch (error) {
  console.error(`forebay: ${(error as Error).message}`);
  process.exitCode = 1;
}
