// The drop-ins of the examples, with the service's unit: systemd knows every key in them. Its own program checks that, where it is installed.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';

const EXAMPLES = fileURLToPath(new URL('..', import.meta.url));
const [forebay] = globSync(process.env.PATH.split(delimiter).map((folder) => join(folder, 'forebay')));

for (const file of globSync('*/systemd.conf', { cwd: EXAMPLES })) {
  test(`systemd knows what ${file} says`, { skip: spawnSync('systemd-analyze', ['--version']).error !== undefined }, (context) => {
    const units = mkdtempSync(join(tmpdir(), 'forebay-units-'));
    context.after(() => rmSync(units, { recursive: true }));
    const copy = (from, to) => writeFileSync(join(units, to), readFileSync(join(EXAMPLES, from), 'utf8').replaceAll(/=\/\S+\/forebay /g, `=${forebay} `));
    mkdirSync(join(units, 'forebay.service.d'));
    copy('../deploy/forebay.service', 'forebay.service');
    copy(file, 'forebay.service.d/example.conf');
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--recursive-errors=no', './forebay.service'], { cwd: units, encoding: 'utf8' });
    assert.deepEqual([status, stderr], [0, '']);
  });
}
