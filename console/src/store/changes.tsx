import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { clock } from '../format';
import { usePoll } from '../hooks';
import { preview } from '../json';
import { link } from '../place';
import { KEPT, readChanges, type Piece } from './feed';
import { Docs, Empty, Filter, Loaded, Table } from '../ui';
import type { Change } from '../types';

const EVERY_MS = 1_000;

interface Row {
  id: string;
  sequence: number;
  time_ms: number;
  op: string;
  path: string[];
  value: unknown;
}

const rows = (changes: Change[]): Row[] =>
  changes.flatMap(({ sequence, time_ms, operations }) => operations.map(({ op, path = [], value }, at) => ({ id: `${sequence}.${at}`, sequence, time_ms, op, path, value }))).reverse();

export function Changes(): JSX.Element {
  const kept = useRef<Piece | undefined>(undefined);
  const [filter, setFilter] = useState('');
  const [paused, setPaused] = useState(false);
  const poll = usePoll(paused ? undefined : 'changes', EVERY_MS, async (_, signal) => (kept.current = await readChanges(kept.current, signal)));
  const shown = rows(kept.current?.changes ?? []).filter(({ path, op }) => `${path.join('/')} ${op}`.toLowerCase().includes(filter.toLowerCase()));
  return (
    <>
      <div class="section">
        <p class="quiet" role="status">
          {paused ? 'Paused' : 'Live'}: the last {KEPT} commits of all processes
        </p>
        <div class="actions">
          <Filter label="Filter changes" value={filter} onChange={setFilter} />
          <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
            {paused ? 'Go on' : 'Pause'}
          </button>
        </div>
      </div>
      <Loaded poll={{ ...poll, data: kept.current }}>
        {() =>
          shown.length === 0 ? (
            <Empty title="No change to show">
              Every commit appears here as it is on disk. <Docs page="guide/store.md#follow-changes">About the change feed</Docs>
            </Empty>
          ) : (
            <Table
              label="Changes"
              noun="change"
              rows={shown}
              id={({ id }) => id}
              columns={[
                { name: 'Change', right: true, cell: ({ sequence }) => sequence },
                { name: 'Time', cell: ({ time_ms }) => clock(time_ms) },
                { name: 'What', cell: ({ op }) => op },
                { name: 'Node', cell: ({ path }) => <a href={link(['store', ...path])}>{path.join('/')}</a> },
                { name: 'Value', wide: true, cell: ({ value }) => <code class="clip">{value === undefined ? '' : preview(value)}</code> },
              ]}
            />
          )
        }
      </Loaded>
    </>
  );
}
