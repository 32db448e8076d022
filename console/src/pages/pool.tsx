import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { post, session } from '../api';
import { useCell } from '../cell';
import { age, bytes, duration, number } from '../format';
import { useAction } from '../hooks';
import { link, place } from '../place';
import { Plot } from '../plot';
import { Confirm, Empty, ErrorBox, Page, Section, State, Table } from '../ui';
import { readiness, restarts, useHistory, useStatus } from './overview';
import { PercentileList } from './route';
import type { PoolStatus } from '../types';

function Resize({ pool, onDone }: { pool: PoolStatus; onDone: () => void }): JSX.Element {
  const [min, setMin] = useState(String(pool.workers_min));
  const [max, setMax] = useState(String(pool.workers_max));
  const resize = useAction(async () => {
    await post(`pools/${encodeURIComponent(pool.name)}/resize`, { min: Number(min), max: Number(max) });
    onDone();
  });
  const bound = (label: string, value: string, onChange: (value: string) => void): JSX.Element => (
    <label>
      {label}
      <input type="number" min="0" max="1024" value={value} onInput={({ currentTarget }) => onChange(currentTarget.value)} />
    </label>
  );
  return (
    <>
      <div class="form">
        {bound('At least', min, setMin)}
        {bound('At most', max, setMax)}
        <Confirm label="Resize" confirm="Resize it" danger={false} action={resize} question={`Pool ${pool.name} will have ${min} to ${max} workers until the next reload. Workers beyond end what they do first.`} />
      </div>
      <ErrorBox error={resize.error} />
    </>
  );
}

function Workers({ pool }: { pool: PoolStatus }): JSX.Element {
  return (
    <Table
      label="Workers"
      noun="worker"
      rows={pool.workers}
      id={({ id }) => String(id)}
      columns={[
        { name: 'Worker', sort: ({ id }) => id, cell: ({ id }) => id },
        { name: 'Process', sort: ({ pid, host }) => host ?? pid, cell: ({ pid, host }) => host ?? pid },
        { name: 'State', sort: ({ phase }) => phase, cell: ({ phase }) => <State tone={phase === 'ready' ? 'good' : phase === 'killed' ? 'bad' : 'warn'}>{phase}</State> },
        { name: 'In flight', right: true, sort: ({ in_flight }) => in_flight, cell: ({ in_flight }) => number(in_flight) },
        { name: 'Answered', right: true, wide: true, sort: ({ answered }) => answered, cell: ({ answered }) => number(answered) },
        { name: 'Memory', right: true, wide: true, sort: ({ rss_bytes }) => rss_bytes ?? 0, cell: ({ rss_bytes }) => bytes(rss_bytes) },
        { name: 'Ready for', right: true, sort: ({ ready_s }) => ready_s ?? 0, cell: ({ ready_s }) => age(ready_s) },
      ]}
    />
  );
}

export function PoolPage(): JSX.Element {
  const name = useCell(place).path[1] ?? '';
  const edit = useCell(session)?.edit === true;
  const status = useStatus();
  const history = useHistory();
  const pool = status.data?.pools.find((each) => each.name === name);
  const past = history.data?.pools.find((each) => each.name === name);
  const at = history.data?.at_ms ?? [];
  return (
    <Page title={`Pool ${name}`} about={<a href={link(['overview'])}>Pools</a>}>
      <ErrorBox error={status.error ?? history.error} />
      {pool && (
        <p class="health">
          <State tone={readiness(pool).tone}>{readiness(pool).text}</State> <span class="quiet">{pool.readiness.reason ?? `${pool.workers_min} to ${pool.workers_max} workers, a queue of at most ${number(pool.queue_max)}`}</span>
        </p>
      )}
      {past && (
        <div class="plots">
          <Plot
            title="Jobs"
            at={at}
            write={number}
            series={[
              { name: 'in flight', values: past.in_flight, colour: '--accent' },
              { name: 'queued', values: past.queued, colour: '--second' },
            ]}
          />
          <Plot title="Workers" at={at} write={number} series={[{ name: 'running', values: past.workers, colour: '--accent' }]} />
        </div>
      )}
      {pool && (
        <>
          <Section title="Workers">
            {pool.workers.length === 0 ? <Empty title="No worker runs now">They start with the next request, where the pool may have none at rest.</Empty> : <Workers pool={pool} />}
          </Section>
          {edit && (
            <Section title="Size">
              <Resize key={`${pool.workers_min} ${pool.workers_max}`} pool={pool} onDone={status.reload} />
            </Section>
          )}
          <Section title="Since the start of the server">
            <dl class="figures">
              <div>
                <dt>answered</dt>
                <dd>{number(pool.counters.answered)}</dd>
              </div>
              <div>
                <dt>faulted</dt>
                <dd class={pool.counters.faulted > 0 ? 'bad' : ''}>{number(pool.counters.faulted)}</dd>
              </div>
              <div>
                <dt>restarts</dt>
                <dd class={restarts(pool) > 0 ? 'warn' : ''}>{number(restarts(pool))}</dd>
              </div>
              <div>
                <dt>slowest wait</dt>
                <dd>{duration(pool.wait.count > 0 ? pool.wait.max_us : null)}</dd>
              </div>
            </dl>
            <h3>Time of handlers</h3>
            <PercentileList of={pool.run} />
            <h3>Wait in the queue</h3>
            <PercentileList of={pool.wait} />
          </Section>
        </>
      )}
      {status.data && !pool && <Empty title="This server has no such pool">It may have gone with a reload. <a href={link(['overview'])}>All pools</a></Empty>}
    </Page>
  );
}
