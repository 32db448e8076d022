// Inserts the figures of the suite `ladder` into docs/guide/choose.md: node bench/choose.mjs RESULT.json

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { ladderFigures } from './report.mjs';

const GUIDE = fileURLToPath(new URL('../docs/guide/choose.md', import.meta.url));
const MARKS = /(<!-- figures: .* -->\n)[^]*?(<!-- end of figures -->)/;

/** The guide's names of the rungs. */
const TITLES = {
  memory: '`respond`: memory',
  file: '`files`',
  store: '`store`: a document',
  record: '`records`: a record',
  script: '`script`, a read that `rest()` declares',
  'script, own read': '`script`, a read of its own',
  'Node pool': '`pool`, Node',
  'Bun pool': '`pool`, Bun',
  'framed stdio': '`pool`, `link = "stdio"`',
  JSONL: '`pool`, `protocol = "jsonl"`',
  WABuR: '`pool`, `protocol = "wabur"`',
  'Python pool': '`pool`, Python (a constant)',
};

const whole = (value) => Math.round(value).toLocaleString('en-US');
const us = (value) => (value < 0.05 ? '' : value.toFixed(1));

/** The guide's figures as Markdown, made from the parsed result of a run. */
export function figures({ date, machine, amounts, suites }) {
  const { ladder } = suites.find(({ name }) => name === 'ladder');
  const measured = ladderFigures(ladder);
  const of = (name, mode) => measured.find((one) => one.name === name && one.mode === mode).clean;
  const record = of('record', 'kept').requests_per_s;
  const lines = ladder.rungs.map(({ name }) => {
    const [kept, closed] = [of(name, 'kept'), of(name, 'closed')];
    const cells = [TITLES[name], us(kept.server_us), us(kept.children_us), whole(kept.requests_per_s), (kept.requests_per_s / record).toFixed(2)];
    return `| ${[...cells, us(closed.server_us + closed.children_us), whole(closed.requests_per_s)].join(' | ')} |`;
  });
  const runs = Object.values(ladder.rounds[0].runs).flatMap(Object.values);
  const busiest = Math.max(...ladder.rounds.flatMap((round) => Object.values(round.runs).flatMap(Object.values)).map((run) => run.elsewhere_share));
  const short = amounts.pairs < 10 || amounts.seconds < 4 ? ' **A short run: the order is right, the figures are not to be quoted.**' : '';
  return `${date.slice(0, 10)}, ${machine.cpu}, ${machine.cores} cores, ${machine.kernel.split(' ').slice(0, 2).join(' ')}; ${amounts.pairs} rounds of ${amounts.seconds} s
for each of ${runs.length} runs; others used up to ${Math.round(busiest * 100)} % of the machine.${short}

| route | CPU of the server, us | of its workers, us | requests/s | : \`records\` | a connection each: CPU, us | requests/s |
|---|---|---|---|---|---|---|
${lines.join('\n')}
`;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const guide = readFileSync(GUIDE, 'utf8');
  if (!MARKS.test(guide)) throw new Error(`${GUIDE} has no marks for figures`);
  const text = figures(JSON.parse(readFileSync(process.argv[2], 'utf8')));
  writeFileSync(GUIDE, guide.replace(MARKS, (_, before, after) => `${before}${text}${after}`));
}
