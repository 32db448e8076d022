#!/usr/bin/env node
// Follows docs/guide/cluster.md, "From one machine to many": one folder on one machine, then on three, each a network namespace of its own. What
// the guide has in blocks is written and run as it stands there.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { BINARY, Machine, NATS, ROOT, until } from './machines.mjs';

const [, section] = readFileSync(join(ROOT, 'docs/guide/cluster.md'), 'utf8').split('## From one machine to many\n');
const blocks = [...section.split('\n## ')[0].matchAll(/^```(\w+)\n(.*?)^```/gms)].map(([, language, text]) => ({ language, text }));
assert.deepEqual(blocks.map(({ language }) => language), ['toml', 'js', 'toml', 'yaml', 'sh', 'sh', 'sh']);
const [alone, handler, shared, nats, onAll, onFront, onHosts] = blocks.map(({ text }) => text);
const env = { PATH: `${dirname(BINARY)}:${dirname(NATS)}:${process.env.PATH}` };

const machines = [1, 2, 3].map((number) => new Machine(number));
const [first] = machines;
const folder = join(first.folder, 'shop');
mkdirSync(folder);
const asked = new Set();
const ask = async (machine) => {
  const response = await fetch(`http://${machine.ip}:8080/`, { signal: AbortSignal.timeout(2_000) });
  assert.equal(response.status, 200);
  const { from } = await response.json();
  asked.add(from);
  return from;
};

writeFileSync(join(folder, 'forebay.toml'), alone);
writeFileSync(join(folder, 'api.mjs'), handler);
first.start('alone', ['forebay', 'serve'], { env, cwd: folder });
await until('one machine answers', async () => (await ask(first)) === 'm1');
await first.kill('alone');

writeFileSync(join(folder, 'forebay.toml'), shared);
for (const machine of machines.slice(1)) cpSync(folder, join(machine.folder, 'shop'), { recursive: true, filter: (path) => !path.endsWith('.sock') });
for (const machine of machines) {
  const cwd = join(machine.folder, 'shop');
  writeFileSync(join(cwd, 'nats.conf'), nats.replace('m1', machine.name));
  const commands = { nats: onAll, forebay: machine === first ? onFront : onHosts };
  for (const [name, command] of Object.entries(commands)) machine.start(name, command.trim().split(' '), { env, cwd });
}
asked.clear();
// Of idle hosts the most recently used one comes first, so it takes several requests at a time to use all.
const askMany = () => Promise.all(Array.from({ length: 20 }, () => ask(first)));
await until('both hosts answer', async () => (await askMany(), asked.size === 2));
assert.deepEqual([...asked].sort(), ['m2', 'm3']);

await machines[2].killAll();
await until('the other host goes on', async () => {
  asked.clear();
  await askMany();
  return asked.size === 1;
});
assert.deepEqual([...asked], ['m2']);
console.log('One folder, then three machines, one of which dies: every step of the guide works.');
process.exit(0);
