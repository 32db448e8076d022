#!/usr/bin/env node
/** The command `forebay` of the npm package: becomes the server's binary, which a package of its own carries for each platform. */

import { createRequire } from 'node:module';
import { VERSION } from './version.js';

const platformPackage = `@forebay/${process.platform}-${process.arch}`;

const binary = (): string => {
  try {
    return createRequire(import.meta.url).resolve(`${platformPackage}/forebay`);
  } catch {
    throw new Error(`the package ${platformPackage} is not installed. Install it beside forebay, from its .tgz or by npm install ${platformPackage}@${VERSION}. Only linux-x64 with glibc has one: on other platforms, build Forebay from source`);
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
