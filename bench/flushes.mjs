#!/usr/bin/env node
// The cost of a flush on a disk: `node bench/flushes.mjs [FOLDER]` prints the median time of write and fdatasync, in microseconds, for
// each way of writing. FOLDER selects the disk to be measured.
import { closeSync, fdatasyncSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROUNDS = 300;
const PAGE = 4096;
const PAGES = 1000;

const folder = mkdtempSync(join(process.argv[2] ?? tmpdir(), 'flushes-'));
const grown = openSync(join(folder, 'grown'), 'w');
const whole = openSync(join(folder, 'whole'), 'w');
writeSync(whole, Buffer.alloc(PAGES * PAGE), 0, PAGES * PAGE, 0);
fsyncSync(whole);

const page = Buffer.alloc(PAGE, 'x');
let at = 0;
const ways = {
  'nothing written': () => {},
  '5,000 bytes, the file grows': (round) => writeSync(grown, Buffer.alloc(5000, 'x'), 0, 5000, round * 5000),
  '5,000 bytes over others': (round) => writeSync(whole, Buffer.alloc(5000, 'x'), 0, 5000, (round % 700) * 5000),
  '100 pages together': () => {
    for (let count = 0; count < 100; count += 1) writeSync(whole, page, 0, PAGE, (at++ % PAGES) * PAGE);
  },
  '100 pages anywhere': () => {
    for (let count = 0; count < 100; count += 1) writeSync(whole, page, 0, PAGE, Math.floor(Math.random() * PAGES) * PAGE);
  },
};

try {
  for (const [name, write] of Object.entries(ways)) {
    const times = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const began = process.hrtime.bigint();
      write(round);
      fdatasyncSync(name.endsWith('grows') ? grown : whole);
      times.push(Number(process.hrtime.bigint() - began) / 1000);
    }
    times.sort((a, b) => a - b);
    console.log(`${name.padEnd(28)} ${times[ROUNDS / 2].toFixed(0)} us`);
  }
} finally {
  closeSync(grown);
  closeSync(whole);
  rmSync(folder, { recursive: true });
}
