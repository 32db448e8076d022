import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { duration, number, rate, several } from '../format';
import { Docs, Empty, Page, Section, State, Table, type Tone } from '../ui';
import { listOf, member, numberOf, textOf } from '../types';

/** Longest report that is read. */
const FILE_MAX = 32 << 20;

/** Whether a bar is reached, and whether figures can be trusted. */
const VERDICTS: Record<string, Tone> = { holds: 'good', clean: 'good', misses: 'bad', failed: 'bad', errors: 'bad', busy: 'warn', noisy: 'warn', 'client-bound': 'warn', undecided: 'warn' };

interface Row {
  name: string;
  rate: number | undefined;
  /** The interval of the rate, where there is one. */
  low: number | undefined;
  high: number | undefined;
  p50_us: number | undefined;
  p99_us: number | undefined;
  cpu_us: number | undefined;
  verdict: string;
  note: string;
}

interface Report {
  title: string;
  about: string;
  unit: string;
  rows: Row[];
}

const milliseconds = (value: unknown): number | undefined => {
  const ms = numberOf(value);
  return ms === undefined ? undefined : ms * 1000;
};

/** An entry of `forebay bench`. */
function rung(value: unknown): Row {
  const interval = member(value, 'requests_per_second_interval');
  const [low, high] = Array.isArray(interval) ? interval : [member(interval, 'low'), member(interval, 'high')];
  return {
    name: textOf(member(value, 'name')),
    rate: numberOf(member(value, 'requests_per_second')),
    low: numberOf(low),
    high: numberOf(high),
    p50_us: milliseconds(member(value, 'p50_ms')),
    p99_us: milliseconds(member(value, 'p99_ms')),
    cpu_us: numberOf(member(value, 'cpu_us_per_request')),
    verdict: textOf(member(value, 'verdict')),
    note: listOf(member(value, 'notes')).map(textOf).join('; '),
  };
}

/** A pool of `forebay bench pool`: its interval is from the slowest to the fastest run. */
function pool(value: unknown): Row {
  const median = member(value, 'median');
  const rates = listOf(member(value, 'runs')).flatMap((run) => numberOf(member(run, 'rate')) ?? []);
  return {
    name: `${textOf(member(value, 'name'))}, ${several(numberOf(member(value, 'workers')) ?? 0, 'worker')}`,
    rate: numberOf(member(median, 'rate')),
    low: rates.length > 1 ? Math.min(...rates) : undefined,
    high: rates.length > 1 ? Math.max(...rates) : undefined,
    p50_us: numberOf(member(median, 'p50_us')),
    p99_us: numberOf(member(median, 'p99_us')),
    cpu_us: numberOf(member(median, 'all_us')),
    verdict: member(value, 'failure') === null ? 'measured' : 'failed',
    note: textOf(member(value, 'failure')),
  };
}

/** A run of `forebay load`, as one row. */
function load(value: unknown): Row {
  const [requests, latency] = [member(value, 'requests'), member(value, 'latency_ms')];
  return {
    name: listOf(member(member(value, 'run'), 'urls')).map(textOf).join(', '),
    rate: numberOf(member(requests, 'per_second')),
    low: numberOf(member(requests, 'per_second_low')),
    high: numberOf(member(requests, 'per_second_high')),
    p50_us: milliseconds(member(latency, 'p50')),
    p99_us: milliseconds(member(latency, 'p99')),
    cpu_us: numberOf(member(member(value, 'server'), 'cpu_us_per_request')),
    verdict: textOf(member(value, 'verdict')),
    note: [...listOf(member(value, 'verdict_reasons')), ...listOf(member(value, 'verdict_notes'))].map(textOf).join('; '),
  };
}

/** A report of `forebay bench` or `forebay load`, or nothing. */
function read(value: unknown): Report | undefined {
  const bench = textOf(member(value, 'bench'));
  const seconds = numberOf(member(value, 'seconds'));
  const about = seconds === undefined ? '' : `took ${duration(seconds * 1e6)}`;
  if (Array.isArray(member(value, 'rungs'))) return { title: `forebay bench ${bench}`, about, unit: 'requests', rows: listOf(member(value, 'rungs')).map(rung) };
  if (Array.isArray(member(value, 'pools')) && bench === 'pool') return { title: 'forebay bench pool', about, unit: 'messages', rows: listOf(member(value, 'pools')).map(pool) };
  if (member(value, 'verdict') !== undefined && member(value, 'latency_ms') !== undefined) return { title: textOf(member(value, 'title')) || 'forebay load', about, unit: 'requests', rows: [load(value)] };
  return undefined;
}

/** A rate as a bar, with its interval as a line across its end. */
function Bar({ row, most }: { row: Row; most: number }): JSX.Element | null {
  if (row.rate === undefined) return null;
  const at = (value: number): string => `${(value / most) * 100}%`;
  return (
    <span class="track bar" aria-hidden="true">
      <i style={{ left: '0', width: at(row.rate) }} />
      {row.low !== undefined && row.high !== undefined && <b style={{ left: at(row.low), width: at(row.high - row.low) }} />}
    </span>
  );
}

function ReportView({ report: { title, about, unit, rows } }: { report: Report }): JSX.Element {
  const most = Math.max(...rows.map(({ rate, high }) => Math.max(rate ?? 0, high ?? 0)), 0) || 1;
  return (
    <Section title={title} actions={<span class="quiet">{about}</span>}>
      <Table
        label={title}
        noun="entry"
        rows={rows}
        id={({ name }) => name}
        columns={[
          { name: 'Entry', sort: ({ name }) => name, cell: ({ name }) => name },
          { name: `${unit[0]?.toUpperCase()}${unit.slice(1)}`, right: true, sort: ({ rate }) => rate ?? 0, cell: (row) => rate(row.rate) },
          { name: 'Interval', right: true, wide: true, cell: ({ low, high }) => low !== undefined && <span class="quiet">{`${number(low)} – ${number(high)}`}</span> },
          { name: 'Compared', wide: true, cell: (row) => <Bar row={row} most={most} /> },
          { name: 'p50', right: true, wide: true, sort: ({ p50_us }) => p50_us ?? 0, cell: ({ p50_us }) => duration(p50_us) },
          { name: 'p99', right: true, sort: ({ p99_us }) => p99_us ?? 0, cell: ({ p99_us }) => duration(p99_us) },
          { name: 'CPU each', right: true, wide: true, sort: ({ cpu_us }) => cpu_us ?? 0, cell: ({ cpu_us }) => duration(cpu_us) },
          { name: 'Verdict', sort: ({ verdict }) => verdict, cell: ({ verdict }) => <State tone={VERDICTS[verdict] ?? 'none'}>{verdict}</State> },
          { name: 'Note', wide: true, cell: ({ note }) => <span class="quiet">{note}</span> },
        ]}
      />
    </Section>
  );
}

export function Bench(): JSX.Element {
  const [report, setReport] = useState<Report | undefined>(undefined);
  const [error, setError] = useState('');
  const take = async (file: File | undefined): Promise<void> => {
    if (file === undefined) return;
    setError('');
    try {
      if (file.size > FILE_MAX) throw new Error(`it is longer than ${FILE_MAX >> 20} MiB`);
      const report = read(JSON.parse(await file.text()));
      if (report === undefined) throw new Error('it has neither the entries of a bench nor the figures of a load test');
      setReport(report);
    } catch (cause) {
      setError(`${file.name} is no report: ${cause instanceof Error ? cause.message : String(cause)}`);
    }
  };
  return (
    <Page
      title="Bench"
      about="Reports that were saved with --json"
      actions={
        <label class="button primary">
          Open a report
          <input type="file" accept="application/json,.json" class="hidden" onChange={({ currentTarget }) => void take(currentTarget.files?.[0])} />
        </label>
      }
    >
      <div onDragOver={(event) => event.preventDefault()} onDrop={(event) => (event.preventDefault(), void take(event.dataTransfer?.files[0]))}>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        {report ? (
          <ReportView report={report} />
        ) : (
          <Empty title="Open a report, or drop it here">
            <code>forebay bench --json report.json</code> and <code>forebay load --json</code> write them; nothing is sent to the server. <Docs page="guide/load.md">Which number to trust</Docs>
          </Empty>
        )}
      </div>
    </Page>
  );
}
