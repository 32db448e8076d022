import { renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { launchForebay, prepare } from '../forebay.mjs';
import { get, getWhenReady } from '../http.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';

const SAVES = 20;
const POLL_MS = 1;
const SAVE_TIMEOUT_MS = 10_000;
/** Between saves: people take longer, and by then the last worker has ended. */
const PAUSE_MS = 500;

const javascript = (word) => `export default () => '${word}';\n`;
const python = (word) => `from forebay import App\napp = App()\napp.get('/word')(lambda: '${word}')\n`;

const RUNTIMES = [
  { runtime: 'node', handler: 'watched.mjs', source: javascript, bar: atMost(200) },
  { runtime: 'bun', handler: 'watched.mjs', source: javascript, bar: atMost(200) },
  { runtime: 'python', handler: 'watched.py', source: python, bar: null },
];

/** From a save to the first answer of the new code, with `forebay serve --watch` and one worker. */
export const watch = {
  name: 'watch',
  title: `from a save to the first answer of new code, ${SAVES} saves`,
  needsForebay: true,
  async run(context) {
    const rows = [];
    for (const { runtime, handler, source, bar } of RUNTIMES) {
      context.progress(`${runtime}, ${SAVES} saves`);
      const files = { [handler]: source('word 0') };
      const prepared = await prepare(context.folder, { pool: { runtime, handler, workers: 1 }, files });
      const server = launchForebay(context.binary, prepared, ['--watch']);
      try {
        await getWhenReady(`http://127.0.0.1:${prepared.port}/word`, server);
        const samples = [];
        for (let number = 1; number <= SAVES; number += 1) {
          await delay(PAUSE_MS);
          samples.push(await save(prepared, handler, source, `word ${number}`));
        }
        rows.push(row({ what: `${runtime}, save to answer`, unit: 'ms', bar, samples }));
      } finally {
        await stop(server);
      }
    }
    return { rows };
  },
};

/** Saves as editors do, a new file in the place of the old one, and returns the milliseconds until it answers. */
async function save({ file, port }, handler, source, word) {
  const folder = dirname(file);
  writeFileSync(join(folder, '.saved'), source(word));
  const begun = performance.now();
  renameSync(join(folder, '.saved'), join(folder, handler));
  while ((await get(`http://127.0.0.1:${port}/word`)).body !== word) {
    if (performance.now() - begun > SAVE_TIMEOUT_MS) throw new Error(`a save has no effect within ${SAVE_TIMEOUT_MS} ms`);
    await delay(POLL_MS);
  }
  return performance.now() - begun;
}
