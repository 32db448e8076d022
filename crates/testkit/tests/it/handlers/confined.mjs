// Runs what a test sends it: a confined worker whose code has been taken over.
import * as child from 'node:child_process';
import * as fs from 'node:fs';
import * as net from 'node:net';
import * as os from 'node:os';
import { router } from 'forebay';

const Code = (async () => {}).constructor;

export default router().post('/run', async (request) => {
  try {
    return `did ${await new Code('fs', 'os', 'net', 'child', await request.text())(fs, os, net, child)}`;
  } catch (error) {
    return error.code ?? String(error);
  }
});
