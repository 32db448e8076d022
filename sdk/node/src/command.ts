#!/usr/bin/env node
/** The command `forebay` of the npm package: becomes the server's binary, which a package of its own carries for each platform. */

import { createRequire } from 'node:module';
import { VERSION } from './version.js';

const carrier = `@forebay/${process.platform}-${process.arch}`;

const binary = (): string => {
  try {
    return createRequire(import.meta.url).resolve(`${carrier}/forebay`);
  } catch {
    throw new Error(`the package ${carrier} is not installed. Install it beside forebay: npm install ${carrier}@${VERSION}. There are packages for linux-x64 (glibc 2.35 or newer) only; others build Forebay from source`);
  }
};

try {
  const program = binary();
  if (process.execve === undefined) throw new Error(`Node 22.15 or newer is needed, and this is ${process.version}. Without Node, run ${program}`);
  // The same process: signals, the terminal and the exit code are the server's.
  process.execve(program, ['forebay', ...process.argv.slice(2)], process.env);
} catch (error) {
  console.error(`forebay: ${(error as Error).message}`);
  process.exitCode = 1;
}
