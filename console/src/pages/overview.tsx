import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { bytes, cores, duration, number, rate, several } from '../format';
import { usePoll } from '../hooks';
import { link } from '../place';
import { Plot, Sparkline } from '../plot';
import { Empty, ErrorBox, Filter, Page, Section, State, Table, Docs, type Tone } from '../ui';
import type { Health, History, PoolStatus, RouteHistory, Status, Values } from '../types';

const STATUS_MS = 2_000;
const HISTORY_MS = 10_000;
const LIST = new Intl.ListFormat('en');
/** The name under which requests without a route are counted. */
const UNROUTED = '(none)';

export const useStatus = () => usePoll<Status>('status', STATUS_MS);
export const useHistory = () => usePoll<History>('history', HISTORY_MS);

/** Combines values of the same moment; null where there are none. */
function combine(series: Values[], length: number, by: (values: number[]) => number): Values {
  return Array.from({ length }, (_, at) => {
    const values = series.flatMap((values) => values[at] ?? []);
    return values.length === 0 ? null : by(values);
  });
}

const sum = (values: number[]): number => values.reduce((sum, value) => sum + value, 0);

export const last = (values: Values): number | undefined => values.findLast((value) => value !== null) ?? undefined;

/** What keeps the server from being ready, in words. */
function failures(health: Health): string[] {
  const of = (what: string, states: Record<string, { state: string; reason?: string }>): string[] =>
    Object.entries(states).flatMap(([name, { state, reason }]) => (state === 'ready' ? [] : `${what} ${name} is ${state}${reason ? `: ${reason}` : ''}`));
  const alone = (what: string, state: { state: string; reason?: string } | undefined): string[] => (state ? of(what, { '': state }) : []);
  return [...(health.stopping ? ['The server is stopping'] : []), ...of('Pool', health.pools), ...of('Database', health.databases), ...alone('The store', health.store), ...alone('The cluster', health.cluster)].map((text) =>
    text.replace('  ', ' '),
  );
}

function HealthLine(): JSX.Element {
  const { data } = usePoll<Health>('/health/ready', STATUS_MS);
  if (data === undefined) return <p class="health quiet">Asking whether the server is ready …</p>;
  const reasons = failures(data);
  if (data.ready) {
    const [pools, databases] = [Object.keys(data.pools).length, Object.keys(data.databases).length];
    const checked = [...(pools ? [several(pools, 'pool')] : []), ...(databases ? [several(databases, 'database')] : []), ...(data.store ? ['the store'] : []), ...(data.cluster ? ['the cluster'] : [])];
    return (
      <p class="health">
        <State tone="good">Ready</State> {checked.length > 0 && <span class="quiet">· checked: {LIST.format(checked)}</span>}
      </p>
    );
  }
  return (
    <div class="health" role="status">
      <State tone="bad">Not ready</State>
      <ul>
        {reasons.map((reason) => (
          <li key={reason}>{reason}</li>
        ))}
      </ul>
    </div>
  );
}

/** Requests and response times, of a route or of all. */
export function RequestPlots({ at, of, times }: { at: number[]; of: RouteHistory; times: string }): JSX.Element {
  return (
    <>
      <Plot
        title="Requests"
        at={at}
        write={rate}
        series={[
          { name: 'all', values: of.requests, colour: '--accent' },
          { name: 'failed', values: of.failures, colour: '--bad' },
        ]}
      />
      <Plot
        title={times}
        at={at}
        write={duration}
        series={[
          { name: 'p99', values: of.p99_us, colour: '--second' },
          { name: 'p50', values: of.p50_us, colour: '--accent' },
        ]}
      />
    </>
  );
}

function Plots({ history: { at_ms: at, routes, server } }: { history: History }): JSX.Element {
  const all = (name: Exclude<keyof RouteHistory, 'route'>, by: (values: number[]) => number): Values => combine(routes.map((route) => route[name]), at.length, by);
  const largest = (values: number[]): number => Math.max(...values);
  return (
    <div class="plots">
      <RequestPlots at={at} times="Response time, slowest route" of={{ route: '', requests: all('requests', sum), failures: all('failures', sum), p50_us: all('p50_us', largest), p99_us: all('p99_us', largest) }} />
      <Plot title="CPU of the server" at={at} write={cores} series={[{ name: 'used', values: server.cpu ?? [], colour: '--accent' }]} />
      <Plot title="Memory of the server" at={at} write={bytes} binary series={[{ name: 'resident', values: server.rss_bytes ?? [], colour: '--accent' }]} />
    </div>
  );
}

interface RouteRow {
  route: string;
  history: RouteHistory | undefined;
  total: number;
  failed: number;
  p50: number;
  p99: number;
}

function routeRows(status: Status, history: History | undefined): RouteRow[] {
  return status.routes.map(({ route, requests, duration }) => {
    const past = history?.routes.find((each) => each.route === route);
    const p = (recent: Values | undefined, ever: number): number => (recent && last(recent)) ?? ever;
    return { route, history: past, total: sum(Object.values(requests)), failed: requests['5xx'] ?? 0, p50: p(past?.p50_us, duration.p50_us), p99: p(past?.p99_us, duration.p99_us) };
  });
}

function Routes({ rows }: { rows: RouteRow[] }): JSX.Element {
  const [filter, setFilter] = useState('');
  const shown = rows.filter(({ route }) => route.toLowerCase().includes(filter.toLowerCase()));
  return (
    <Section title="Routes" actions={<Filter label="Filter routes" value={filter} onChange={setFilter} />}>
      {rows.length === 0 ? (
        <Empty title="No route has had a request yet">
          Routes appear with their first request. <Docs page="reference/routing.md">How requests find their routes</Docs>
        </Empty>
      ) : (
        <Table
          label="Routes"
          noun="route"
          rows={shown}
          id={({ route }) => route}
          order="-Requests"
          columns={[
            { name: 'Route', sort: ({ route }) => route, cell: ({ route }) => (route === UNROUTED ? <span class="quiet">no route found</span> : <a href={link(['route', route])}>{route}</a>) },
            { name: 'Last hour', wide: true, cell: ({ history }) => history && <Sparkline values={history.requests} /> },
            { name: 'Now', right: true, sort: ({ history }) => (history && last(history.requests)) ?? 0, cell: ({ history }) => rate(history && (last(history.requests) ?? 0)) },
            { name: 'p50', right: true, wide: true, sort: ({ p50 }) => p50, cell: ({ p50, total }) => duration(total ? p50 : null) },
            { name: 'p99', right: true, sort: ({ p99 }) => p99, cell: ({ p99, total }) => duration(total ? p99 : null) },
            { name: 'Requests', right: true, wide: true, sort: ({ total }) => total, cell: ({ total }) => number(total) },
            { name: 'Failed', right: true, sort: ({ failed }) => failed, cell: ({ failed }) => <span class={failed > 0 ? 'bad' : 'quiet'}>{number(failed)}</span> },
          ]}
        />
      )}
    </Section>
  );
}

export function readiness(pool: PoolStatus): { tone: Tone; text: string } {
  const { state } = pool.readiness;
  return { tone: state === 'ready' ? 'good' : state === 'failing' ? 'bad' : 'warn', text: state };
}

/** Workers that ended although nobody wanted them to. */
export const restarts = ({ counters }: PoolStatus): number => sum(['crashed', 'overran', 'protocol', 'start_failed'].map((cause) => counters.workers_ended[cause] ?? 0));

function Pools({ status, history }: { status: Status; history: History | undefined }): JSX.Element {
  return (
    <Section title="Pools">
      {status.pools.length === 0 ? (
        <Empty title="This server has no pool">
          A pool of worker processes is a section [pool.NAME] of the configuration. <Docs page="guide/pools.md">About pools</Docs>
        </Empty>
      ) : (
        <Table
          label="Pools"
          noun="pool"
          rows={status.pools}
          id={({ name }) => name}
          columns={[
            { name: 'Pool', sort: ({ name }) => name, cell: ({ name }) => <a href={link(['pool', name])}>{name}</a> },
            { name: 'State', sort: ({ readiness }) => readiness.state, cell: (pool) => <State tone={readiness(pool).tone}>{readiness(pool).text}</State> },
            { name: 'Queue, last hour', wide: true, cell: ({ name }) => <Sparkline values={history?.pools.find((pool) => pool.name === name)?.queued ?? []} /> },
            { name: 'Workers', right: true, sort: ({ workers }) => workers.length, cell: ({ workers, workers_max }) => `${workers.length} of ${workers_max}` },
            { name: 'Queued', right: true, sort: ({ queued }) => queued, cell: ({ queued }) => number(queued) },
            { name: 'In flight', right: true, sort: ({ workers }) => sum(workers.map((worker) => worker.in_flight)), cell: ({ workers }) => number(sum(workers.map((worker) => worker.in_flight))) },
            { name: 'Answered', right: true, wide: true, sort: ({ counters }) => counters.answered, cell: ({ counters }) => number(counters.answered) },
            { name: 'Restarts', right: true, sort: restarts, cell: (pool) => <span class={restarts(pool) > 0 ? 'warn' : 'quiet'}>{number(restarts(pool))}</span> },
          ]}
        />
      )}
    </Section>
  );
}

export function Overview(): JSX.Element {
  const status = useStatus();
  const history = useHistory();
  return (
    <Page
      title="Overview"
      about={status.data && `${status.data.listen.join(', ')} · process ${status.data.pid} · configuration ${status.data.generation} · ${several(status.data.connections.open, 'connection')}`}
    >
      <HealthLine />
      <ErrorBox error={history.error} />
      {history.data && history.data.at_ms.length > 1 ? (
        <Plots history={history.data} />
      ) : (
        <div class="plots placeholder">
          <p class="quiet">{history.data && `The plots begin ${history.data.every_ms / 500} seconds after the start of the server.`}</p>
        </div>
      )}
      <ErrorBox error={status.error} />
      {status.data && <Routes rows={routeRows(status.data, history.data)} />}
      {status.data && <Pools status={status.data} history={history.data} />}
    </Page>
  );
}
