// The drop-ins of the examples and of docs/guide/internet.md, with the service's unit: systemd knows every key in them. Its own program checks that, where it is installed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const EXAMPLES = fileURLToPath(new URL('..', import.meta.url));
const [forebay] = globSync(process.env.PATH.split(delimiter).map((folder) => join(folder, 'forebay')));

const read = (file) => readFileSync(join(EXAMPLES, file), 'utf8');
const guide = '../docs/guide/internet.md';
const dropIns = globSync('*/systemd.conf', { cwd: EXAMPLES }).map((file) => [file, read(file)]);
dropIns.push([guide, /```ini\n([^]+?)```/.exec(read(guide))[1]]);

for (const [file, dropIn] of dropIns) {
  test(`systemd knows what ${file} says`, { skip: spawnSync('systemd-analyze', ['--version']).error !== undefined }, (context) => {
    const units = mkdtempSync(join(tmpdir(), 'forebay-units-'));
    context.after(() => rmSync(units, { recursive: true }));
    const put = (to, text) => writeFileSync(join(units, to), text.replaceAll(/=\/\S+\/forebay /g, `=${forebay} `));
    mkdirSync(join(units, 'forebay.service.d'));
    put('forebay.service', read('../deploy/forebay.service'));
    put('forebay.service.d/example.conf', dropIn);
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--recursive-errors=no', './forebay.service'], { cwd: units, encoding: 'utf8' });
    assert.deepEqual([status, stderr], [0, '']);
  });
}
