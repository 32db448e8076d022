import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { post, request, session } from '../api';
import { useCell } from '../cell';
import { clock, duration, number } from '../format';
import { useAction, usePoll } from '../hooks';
import { Json } from '../json';
import { link, place, setQuery } from '../place';
import { Button, Confirm, Docs, Empty, ErrorBox, Filter, Loaded, Page, Section, State, Table, type Tone } from '../ui';
import { useStatus } from './overview';
import type { Job, QueueStatus } from '../types';

const EVERY_MS = 2_000;
const LIMIT = 200;
const STATES: Record<string, Tone> = { waiting: 'none', running: 'good', retrying: 'warn', done: 'good', failed: 'bad' };

interface Listed {
  jobs: Job[];
  schedules: { route: string; schedule: string; timeZone: string; nextMs: number }[];
}

function Queues({ queues }: { queues: QueueStatus[] }): JSX.Element {
  return (
    <Table
      label="Queues"
      noun="queue"
      rows={queues}
      id={({ queue }) => queue}
      columns={[
        { name: 'Route', sort: ({ queue }) => queue, cell: ({ queue }) => <a href={link(['jobs'], { route: queue })}>{queue}</a> },
        { name: 'Waiting', right: true, sort: ({ waiting }) => waiting, cell: ({ waiting }) => number(waiting) },
        { name: 'Running', right: true, sort: ({ running }) => running, cell: ({ running }) => number(running) },
        { name: 'Next is late by', right: true, wide: true, sort: ({ oldest_ms }) => oldest_ms, cell: ({ oldest_ms }) => duration(oldest_ms > 0 ? oldest_ms * 1000 : null) },
        { name: 'Done', right: true, sort: ({ done }) => done, cell: ({ done }) => number(done) },
        { name: 'Failed', right: true, sort: ({ failed }) => failed, cell: ({ failed }) => <span class={failed > 0 ? 'bad' : 'quiet'}>{number(failed)}</span> },
      ]}
    />
  );
}

interface JobDetail extends Job {
  request?: unknown;
  response?: unknown;
}

function JobFacts({ job: { state, attempts, acceptedMs, dueMs, begunMs, endedMs, error, request, response } }: { job: JobDetail }): JSX.Element {
  const facts: [string, ComponentChildren][] = [
    ['state', <State tone={STATES[state] ?? 'none'}>{state}</State>],
    ['attempts', attempts],
    ['accepted', clock(acceptedMs)],
    ...(dueMs ? [['due', clock(dueMs)] as [string, string]] : []),
    ['begun', clock(begunMs)],
    ['ended', clock(endedMs)],
  ];
  return (
    <>
      <dl class="figures">
        {facts.map(([name, fact]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{fact}</dd>
          </div>
        ))}
      </dl>
      {error && <p class="bad">{error}</p>}
      <div class="columns">
        {request !== undefined && (
          <div>
            <h4>Request</h4>
            <Json text={JSON.stringify(request)} />
          </div>
        )}
        {response !== undefined && (
          <div>
            <h4>Response</h4>
            <Json text={JSON.stringify(response)} />
          </div>
        )}
      </div>
    </>
  );
}

function JobPanel({ id, edit, onChange }: { id: string; edit: boolean; onChange: () => void }): JSX.Element {
  const poll = usePoll<JobDetail>(`jobs/${encodeURIComponent(id)}`, EVERY_MS);
  const changed = (): void => {
    poll.reload();
    onChange();
  };
  const retry = useAction(async () => {
    await post(`jobs/${encodeURIComponent(id)}/retry`);
    changed();
  });
  const remove = useAction(async () => {
    await request('DELETE', `jobs/${encodeURIComponent(id)}`);
    setQuery({ job: undefined });
    onChange();
  });
  return (
    <div class="panel">
      <div class="section">
        <h3>Job {id}</h3>
        <div class="actions">
          {edit && (
            <>
              <Button action={retry} given={[]}>
                Retry now
              </Button>
              <Confirm label="Remove" confirm="Remove it" action={remove} question="The job, its request and its response will be gone. It will not run again." />
            </>
          )}
          <button type="button" class="plain" aria-label="Close" onClick={() => setQuery({ job: undefined })}>
            ✕
          </button>
        </div>
      </div>
      <ErrorBox error={retry.error ?? remove.error} />
      <Loaded poll={poll}>{(job) => <JobFacts job={job} />}</Loaded>
    </div>
  );
}

export function Jobs(): JSX.Element {
  const known = useCell(session);
  const { query } = useCell(place);
  const [filter, setFilter] = useState('');
  const [state, route, chosen] = [query.get('state') ?? '', query.get('route') ?? '', query.get('job') ?? ''];
  const parameters = new URLSearchParams({ limit: String(LIMIT), ...(state && { state }), ...(route && { route }) });
  const jobs = usePoll<Listed>(known?.jobs ? `jobs?${parameters}` : undefined, EVERY_MS);
  const status = useStatus();
  const explanation = (
    <>
      A route with <code>durable = {'{}'}</code> stores its requests as jobs, which are done even if the server dies. <Docs page="guide/jobs.md">About jobs</Docs>
    </>
  );
  if (!known?.jobs) {
    return (
      <Page title="Jobs">
        <Empty title="This server has no durable jobs">{explanation}</Empty>
      </Page>
    );
  }
  const queues = status.data?.jobs ?? [];
  return (
    <Page title="Jobs" about="Requests that are stored and done later">
      {queues.length > 0 && (
        <Section title="Queues">
          <Queues queues={queues} />
        </Section>
      )}
      {jobs.data && jobs.data.schedules.length > 0 && (
        <Section title="Schedules">
          <Table
            label="Schedules"
            noun="schedule"
            rows={jobs.data.schedules}
            id={({ route, schedule }) => route + schedule}
            columns={[
              { name: 'Route', cell: ({ route }) => route },
              { name: 'At', cell: ({ schedule, timeZone }) => `${schedule} (${timeZone})` },
              { name: 'Next', cell: ({ nextMs }) => clock(nextMs) },
            ]}
          />
        </Section>
      )}
      <Section
        title={route ? `Jobs of ${route}` : 'Jobs'}
        actions={
          <>
            {route && (
              <a class="button" href={link(['jobs'], { state })}>
                Of all routes
              </a>
            )}
            <select aria-label="State" value={state} onChange={({ currentTarget }) => setQuery({ state: currentTarget.value })}>
              <option value="">all states</option>
              {Object.keys(STATES).map((state) => (
                <option key={state}>{state}</option>
              ))}
            </select>
            <Filter label="Filter jobs" value={filter} onChange={setFilter} />
          </>
        }
      >
        {chosen && <JobPanel key={chosen} id={chosen} edit={known.edit} onChange={jobs.reload} />}
        <Loaded poll={jobs}>
          {({ jobs }) => {
            const shown = jobs.filter(({ id, route, error }) => `${id} ${route} ${error ?? ''}`.toLowerCase().includes(filter.toLowerCase()));
            if (shown.length === 0) return <Empty title={state || filter || route ? 'No job matches' : 'There is no job'}>{explanation}</Empty>;
            return (
              <>
                <Table
                  label="Jobs"
                  noun="job"
                  rows={shown}
                  id={({ id }) => id}
                  chosen={chosen}
                  columns={[
                    { name: 'Job', cell: ({ id }) => <a href={link(['jobs'], { ...Object.fromEntries(query), job: id })}>{id.slice(0, 16)}</a> },
                    { name: 'State', sort: ({ state }) => state, cell: ({ state }) => <State tone={STATES[state] ?? 'none'}>{state}</State> },
                    { name: 'Route', wide: true, sort: ({ route }) => route, cell: ({ route }) => route },
                    { name: 'Attempts', right: true, sort: ({ attempts }) => attempts, cell: ({ attempts }) => attempts },
                    { name: 'Accepted', wide: true, sort: ({ acceptedMs }) => acceptedMs, cell: ({ acceptedMs }) => clock(acceptedMs) },
                    { name: 'Due or ended', wide: true, sort: ({ endedMs, dueMs }) => endedMs ?? dueMs ?? 0, cell: ({ endedMs, dueMs }) => clock(endedMs ?? dueMs) },
                    { name: 'Error', cell: ({ error }) => <span class="bad clip">{error}</span> },
                  ]}
                />
                {jobs.length === LIMIT && <p class="quiet">The first {LIMIT} are shown: choose a state or a route for others.</p>}
              </>
            );
          }}
        </Loaded>
      </Section>
    </Page>
  );
}
