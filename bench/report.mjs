// Formats results as text for a terminal.

import { ELSEWHERE_SHARE_MAX } from './rows.mjs';
import { median } from './stats.mjs';

/** Lines of a table; columns are as wide as their widest cell. `right` selects the columns with figures. */
function table(header, lines, right) {
  const widths = header.map((title, column) => Math.max(title.length, ...lines.map((cells) => cells[column].length)));
  const render = (cells) =>
    cells.map((cell, column) => (right[column] ? cell.padStart(widths[column]) : cell.padEnd(widths[column]))).join('  ').trimEnd();
  return [header, widths.map((width) => '-'.repeat(width)), ...lines].map((cells) => `  ${render(cells)}`).join('\n');
}

/** A figure with three significant digits, or rounded to an integer from 100 on; `-` if there is none, or if the clock was too coarse. */
function figure(value) {
  if (!Number.isFinite(value)) return '-';
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

/** Absolute figures of laps (see laps.mjs): operations per second of wall-clock time, their spread, and per second of CPU time. */
export function renderLaps(rounds) {
  const lines = Object.entries(rounds[0]).flatMap(([name, { operations }]) =>
    Object.keys(operations).map((operation) => {
      const of = (metric) => rounds.map((round) => round[name].operations[operation][metric]);
      const per_s = of('per_s');
      const spread = `${figure(Math.min(...per_s))} .. ${figure(Math.max(...per_s))}`;
      return [name, operation, figure(median(per_s)), spread, figure(median(of('per_cpu_s')))];
    }),
  );
  return table(['', 'operation', '/s', 'from .. to', 'per CPU second'], lines, [false, false, true, true, true]);
}

/** Absolute figures of a contest (see contest.mjs): medians over each contender's clean runs under each load. */
export function renderContest(rounds) {
  const lines = Object.entries(rounds[0]).flatMap(([name, loads]) =>
    Object.keys(loads).map((load) => {
      const runs = rounds.map((round) => round[name][load]);
      const clean = runs.filter(({ flags }) => flags.length === 0);
      const of = (metric, scale = 1) => (clean.length > 0 ? figure(median(clean.map((run) => run[metric])) / scale) : '-');
      const figures = [of('requests_per_s'), of('p50_us', 1000), of('p99_us', 1000), of('cpu_us_per_request'), of('database_us_per_request'), of('client_cores')];
      return [load, name, ...figures, `${clean.length}/${runs.length}`];
    }),
  );
  // Group lines by load, so that contenders are next to each other.
  const loads = [...new Set(lines.map(([load]) => load))];
  const sorted = loads.flatMap((load) => lines.filter((line) => line[0] === load));
  const header = ['', '', 'requests/s', 'p50 ms', 'p99 ms', 'server us/request', 'database us/request', 'client cores', 'runs'];
  return table(header, sorted, [false, false, true, true, true, true, true, true, true]);
}

/** Reservations about the figures: peers left out, flagged runs, and use of the machine by others. */
export function renderWarnings({ openLoop = [], contest = [], skipped = [] }) {
  const timed = [];
  for (const [name, loads] of contest.flatMap(Object.entries)) timed.push(...Object.entries(loads).map(([load, run]) => ({ name: `${name}, ${load}`, ...run })));
  const runs = [...timed, ...openLoop.map((run) => ({ name: run.side, ...run }))];
  const lines = skipped.map((sentence) => `  ${sentence}`);
  lines.push(...runs.filter(({ flags }) => flags.length > 0).map(({ name, flags }) => `  set aside: ${name}: ${flags.join('; ')}`));
  const busy = timed.filter(({ elsewhere_share }) => elsewhere_share > ELSEWHERE_SHARE_MAX);
  if (busy.length > 0) {
    const most = Math.max(...busy.map(({ elsewhere_share }) => elsewhere_share));
    lines.push(`  others used up to ${figure(most * 100)} % of the machine during ${busy.length} of ${timed.length} runs`);
  }
  return lines.join('\n');
}
