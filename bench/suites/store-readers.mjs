import { mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { watchOthers } from '../measure.mjs';
import { launch, stop } from '../processes.mjs';
import { atLeast, atMost, ratioRow, row } from '../rows.mjs';

const READERS = 4;
const MARKS = 250;
const ANSWER_TIMEOUT_MS = 30_000;
/** How long the writer writes before and after the readers read. */
const AROUND_MS = 200;

/** A child process that answers lines (../inprocess/answering.mjs). */
class Asked {
  #asked = 0;

  constructor(name, program, args) {
    const path = fileURLToPath(new URL(`../inprocess/${program}`, import.meta.url));
    this.process = launch(name, process.execPath, [path, ...args.map(String)], { env: { PATH: process.env.PATH }, stdin: 'pipe' });
    this.process.child.stdin.on('error', () => {}); // `ask` reports its end
  }

  async ask(name, argument = 0) {
    const number = ++this.#asked;
    this.process.child.stdin.write(`${number} ${name} ${argument}\n`);
    const [, answer] = await this.process.waitForOutput(new RegExp(`^${number} (.*)\n`, 'm'), ANSWER_TIMEOUT_MS);
    return JSON.parse(answer);
  }
}

/** The read rate of four processes without and with a concurrent writer, alternating between the two; and whether they see all writes. */
export const storeReaders = {
  name: 'store-readers',
  title: `${READERS} Node processes that read, beside one that commits without a pause`,
  needsForebay: true,
  async run(context) {
    const folder = join(mkdtempSync(join(context.folder, 'readers-')), 'store');
    const writer = new Asked('writer', 'writer.mjs', [folder, context.records]);
    const readers = [];
    try {
      await writer.ask('mark', 0);
      for (let number = 0; number < READERS; number += 1) readers.push(new Asked('reader', 'reader.mjs', [folder, context.records]));
      const missed = await countMissed(context, writer, readers);
      await phase(context, writer, readers); // warm-up, not counted
      const pairs = [];
      for (let number = 0; number < context.pairs; number += 1) {
        const order = number % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
        const pair = { order: order.join('') };
        for (const side of order) {
          context.progress(`pair ${number + 1} of ${context.pairs}, ${side === 'a' ? 'with' : 'without'} a writer`);
          pair[side] = await phase(context, side === 'a' ? writer : null, readers);
        }
        pairs.push(pair);
      }
      const comparison = { a: 'with a writer', b: 'without', pairs };
      const of = (side, metric, scale) => pairs.map((pair) => pair[side][metric] / scale);
      return {
        readers: comparison,
        rows: [
          ratioRow(comparison, 'reads_per_cpu_s', { what: 'reads per CPU second of the readers, with a writer : without', bar: atLeast(0.9) }),
          row({ what: `reads that missed a commit made before, of ${MARKS * READERS}`, bar: atMost(0), samples: [missed] }),
          row({ what: 'reads per CPU second without a writer', unit: 'million', samples: of('b', 'reads_per_cpu_s', 1e6) }),
          row({ what: 'commits of 10 leaves a second meanwhile', unit: 'thousand', samples: of('a', 'commits_per_s', 1e3) }),
        ],
      };
    } finally {
      for (const { process } of [writer, ...readers]) await stop(process);
    }
  },
};

/** Commits markers one after the other; returns how many of the readers' next reads did not see them. */
async function countMissed({ progress }, writer, readers) {
  progress('markers');
  let missed = 0;
  for (let marker = 1; marker <= MARKS; marker += 1) {
    await writer.ask('mark', marker);
    const seen = await Promise.all(readers.map((reader) => reader.ask('look')));
    missed += seen.filter((found) => found !== marker).length;
  }
  return missed;
}

/** All readers read for the length of a timed run; the writer, if any, writes from before to after. */
async function phase({ seconds }, writer, readers) {
  const milliseconds = seconds * 1e3;
  const elsewhereShare = watchOthers();
  const writing = writer?.ask('write', milliseconds + 2 * AROUND_MS);
  const reading = delay(writer ? AROUND_MS : 0).then(() => Promise.all(readers.map((reader) => reader.ask('read', milliseconds))));
  const [wrote, answers] = await Promise.all([writing, reading]);
  const sum = (name) => answers.reduce((total, answer) => total + answer[name], 0);
  return {
    reads: sum('reads'),
    reads_per_cpu_s: (sum('reads') / sum('cpu_us')) * 1e6,
    commits_per_s: wrote ? (wrote.commits / wrote.milliseconds) * 1e3 : 0,
    elsewhere_share: elsewhereShare(),
    flags: [],
  };
}
