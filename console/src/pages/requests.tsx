import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, post, request } from '../api';
import { useCell } from '../cell';
import { duration, number, several } from '../format';
import { useAction, usePoll } from '../hooks';
import { place, setQuery } from '../place';
import { PhaseBar, TimelineView } from '../timeline';
import { Button, Docs, Empty, ErrorBox, Filter, Page, Section, Table } from '../ui';
import type { Samples, Status, Timeline } from '../types';

const ALL = '';
const TRACE_POLL_MS = 500;
const SECONDS = ['5', '10', '30', '60', '300'];

const failed = ({ status }: Timeline): boolean => status >= 500 || status === 0;
/** The failed first, then by time. */
const worstFirst = (one: Timeline, other: Timeline): number => Number(failed(other)) - Number(failed(one)) || other.total_us - one.total_us;

/** Waits, unless it is ended before. */
function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}

function SampleList({ samples: { samples, seen, left_out } }: { samples: Samples }): JSX.Element {
  const [filter, setFilter] = useState('');
  const [chosen, setChosen] = useState<Timeline | undefined>(undefined);
  const wanted = filter.toLowerCase();
  const shown = samples.filter(({ method, target, route, status, request_id }) => `${method} ${target} ${route} ${status} ${request_id}`.toLowerCase().includes(wanted)).sort(worstFirst);
  if (samples.length === 0) return <Empty title="No request came while it was recorded">Send some, or record for longer.</Empty>;
  return (
    <Section title={`${several(samples.length, 'request')}, failed and slowest first`} actions={<Filter label="Filter requests" value={filter} onChange={setFilter} />}>
      <p class="quiet">
        {seen > samples.length ? `Chosen at random from ${number(seen)}.` : 'All that came.'} {left_out > 0 && `${number(left_out)} more had no room.`}
      </p>
      {chosen && (
        <div class="panel" key={chosen.request_id} ref={(panel) => panel?.scrollIntoView({ block: 'nearest' })}>
          <TimelineView timeline={chosen} />
        </div>
      )}
      <Table
        label="Requests"
        noun="request"
        rows={shown}
        id={({ request_id }) => request_id}
        page={25}
        {...(chosen && { chosen: chosen.request_id })}
        columns={[
          { name: 'Status', sort: ({ status }) => status, cell: (sample) => <span class={failed(sample) ? 'bad' : ''}>{sample.status || 'gone'}</span> },
          {
            name: 'Request',
            sort: ({ target }) => target,
            cell: (sample) => (
              <button type="button" class="link" onClick={() => setChosen(sample === chosen ? undefined : sample)}>
                {sample.method} {sample.target}
              </button>
            ),
          },
          { name: 'Route', wide: true, sort: ({ route }) => route, cell: ({ route }) => <span class="quiet">{route}</span> },
          { name: 'Took', right: true, sort: ({ total_us }) => total_us, cell: ({ total_us }) => duration(total_us) },
          { name: 'Where it went', wide: true, cell: (sample) => <PhaseBar timeline={sample} /> },
        ]}
      />
    </Section>
  );
}

function Recorder(): JSX.Element {
  const route = useCell(place).query.get('route') ?? ALL;
  const status = usePoll<Status>('status', 0);
  const [seconds, setSeconds] = useState('10');
  const [samples, setSamples] = useState<Samples | undefined>(undefined);
  const [left, setLeft] = useState(0);
  const stop = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => stop.current?.abort(), []);
  const record = useAction(async () => {
    const stopped = new AbortController();
    stop.current = stopped;
    const forMs = Number(seconds) * 1000;
    const { run } = await post<{ run: number }>('samples', { for_ms: forMs, ...(route !== ALL && { route }) });
    const end = Date.now() + forMs;
    while (Date.now() < end && !stopped.signal.aborted) {
      setLeft(Math.ceil((end - Date.now()) / 1000));
      await pause(Math.min(1000, end - Date.now()), stopped.signal);
    }
    setLeft(0);
    // Reading the samples ends the run, also when the page was left.
    setSamples(await get<Samples>(`samples/${run}`));
  });
  const routes = status.data?.routes.map(({ route }) => route) ?? [];
  return (
    <Section title="Record">
      <div class="form">
        <label>
          Requests of
          <select value={route} onChange={({ currentTarget }) => setQuery({ route: currentTarget.value })}>
            <option value={ALL}>all routes</option>
            {(route === ALL || routes.includes(route) ? routes : [route, ...routes]).map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          For
          <select value={seconds} onChange={({ currentTarget }) => setSeconds(currentTarget.value)}>
            {SECONDS.map((seconds) => (
              <option key={seconds} value={seconds}>
                {seconds} s
              </option>
            ))}
          </select>
        </label>
        <Button class="primary" action={record} given={[]}>
          Record
        </Button>
        {left > 0 && (
          <>
            <button type="button" onClick={() => stop.current?.abort()}>
              Stop
            </button>
            <span role="status" class="quiet">
              {left} s left
            </span>
          </>
        )}
      </div>
      <ErrorBox error={record.error} />
      {samples ? (
        <SampleList samples={samples} />
      ) : (
        !record.busy && (
          <Empty title="Nothing is recorded yet">
            The server notes where each request spends its time, for as long as you say; requests outside of that cost nothing. <Docs page="guide/explain.md">What the spans mean</Docs>
          </Empty>
        )
      )}
    </Section>
  );
}

interface Ticket {
  token: string;
  header: string;
  valid_ms: number;
}

function OneRequest(): JSX.Element {
  const [ticket, setTicket] = useState<Ticket | undefined>(undefined);
  const [timeline, setTimeline] = useState<Timeline | undefined>(undefined);
  const ended = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => ended.current?.abort(), []);
  const trace = useAction(async () => {
    ended.current?.abort();
    const { signal } = (ended.current = new AbortController());
    setTimeline(undefined);
    const ticket = await post<Ticket>('traces');
    setTicket(ticket);
    const end = Date.now() + ticket.valid_ms;
    while (Date.now() < end && !signal.aborted) {
      const { status, text } = await request('GET', `traces/${ticket.token}`);
      if (status === 200) {
        setTimeline(JSON.parse(text) as Timeline);
        break;
      }
      await pause(TRACE_POLL_MS, signal);
    }
    setTicket(undefined);
  });
  const sample = usePoll<Status>('status', 0).data?.listen[0] ?? '';
  return (
    <Section title="Trace one request">
      <div class="form">
        <Button action={trace} given={[]}>
          {timeline ? 'Trace another one' : 'Make a token'}
        </Button>
        {!ticket && !timeline && <span class="quiet">The next request that carries the token is timed, and no other.</span>}
      </div>
      <ErrorBox error={trace.error} />
      {ticket && (
        <div role="status">
          <p>Send your request with this header field within a minute; its timeline appears here.</p>
          <pre class="code" tabIndex={0}>{`${ticket.header}: ${ticket.token}\n\ncurl -H '${ticket.header}: ${ticket.token}' ${/^https?:/.test(sample) ? sample : 'http://127.0.0.1:8080'}/`}</pre>
        </div>
      )}
      {timeline && <TimelineView timeline={timeline} />}
    </Section>
  );
}

export function Requests(): JSX.Element {
  return (
    <Page title="Requests" about="Which requests are slow or fail, and where their time goes">
      <Recorder />
      <OneRequest />
    </Page>
  );
}
