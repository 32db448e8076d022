// The result as text for a terminal.

import { ELSEWHERE_SHARE_MAX } from './rows.mjs';
import { median } from './stats.mjs';

/** Lines of a table; columns are as wide as their widest cell. `right` says which columns hold figures. */
function table(header, lines, right) {
  const widths = header.map((title, column) => Math.max(title.length, ...lines.map((cells) => cells[column].length)));
  const render = (cells) =>
    cells.map((cell, column) => (right[column] ? cell.padStart(widths[column]) : cell.padEnd(widths[column]))).join('  ').trimEnd();
  return [header, widths.map((width) => '-'.repeat(width)), ...lines].map((cells) => `  ${render(cells)}`).join('\n');
}

/** A figure with three significant digits, or whole from 100 on. */
function figure(value) {
  if (value === null) return '-';
  if (value === 0) return '0';
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString('en-US') : value.toPrecision(3);
}

/** The rows of one suite: bar, value, interval, verdict. */
export function renderRows(rows) {
  const lines = rows.map(({ what, unit, bar, value, low, high, samples, of, verdict, sure, notes }) => [
    what,
    bar ?? '',
    `${figure(value)}${unit && value !== null ? ` ${unit}` : ''}`,
    samples.length > 1 && value !== null ? `${figure(low)} .. ${figure(high)}` : '',
    `${samples.length}/${of}`,
    [verdict, sure ? '' : '(interval crosses the bar)', ...notes].filter(Boolean).join(' '),
  ]);
  return table(['', 'bar', 'value', '95 % interval', 'runs', 'verdict'], lines, [false, true, true, true, true, false]);
}

/** The absolute figures behind comparisons: medians over each side's clean runs. */
export function renderSides(comparisons) {
  const sides = new Map();
  for (const { a, b, path, pairs } of comparisons) {
    for (const [name, side] of [[a, 'a'], [b, 'b']]) {
      const key = `${name}\n${path}`;
      if (!sides.has(key)) sides.set(key, { name, path, runs: [] });
      sides.get(key).runs.push(...pairs.map((pair) => pair[side]));
    }
  }
  const lines = [...sides.values()].map(({ name, path, runs }) => {
    const clean = runs.filter(({ flags }) => flags.length === 0);
    const of = (metric, scale = 1) => (clean.length > 0 ? figure(median(clean.map((run) => run[metric])) / scale) : '-');
    return [
      name,
      path,
      of('requests_per_s'),
      of('p50_us', 1000),
      of('p99_us', 1000),
      of('cpu_us_per_request'),
      of('rss_bytes', 1e6),
      of('client_cores'),
      `${clean.length}/${runs.length}`,
    ];
  });
  const header = ['', 'path', 'requests/s', 'p50 ms', 'p99 ms', 'CPU us/request', 'RSS MB', 'client cores', 'runs'];
  return table(header, lines, [false, false, true, true, true, true, true, true, true]);
}

/** What a reader must know before believing the figures: flagged runs and a machine that others used. */
export function renderWarnings({ comparisons = [], openLoop = [] }) {
  const timed = comparisons.flatMap(({ a, b, pairs }) => pairs.flatMap((pair) => [{ name: a, ...pair.a }, { name: b, ...pair.b }]));
  const runs = [...timed, ...openLoop.map((run) => ({ name: run.side, ...run }))];
  const lines = runs.filter(({ flags }) => flags.length > 0).map(({ name, flags }) => `  set aside: ${name}: ${flags.join('; ')}`);
  const busy = timed.filter(({ elsewhere_share }) => elsewhere_share > ELSEWHERE_SHARE_MAX);
  if (busy.length > 0) {
    const most = Math.max(...busy.map(({ elsewhere_share }) => elsewhere_share));
    lines.push(`  others used up to ${figure(most * 100)} % of the machine during ${busy.length} of ${timed.length} runs`);
  }
  return lines.join('\n');
}
