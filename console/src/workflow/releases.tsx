import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, get } from '../api';
import { useCell } from '../cell';
import { Diff } from '../diff';
import { bytes, clock, number, several } from '../format';
import { usePoll } from '../hooks';
import { indented } from '../json';
import { place, setQuery } from '../place';
import { Docs, Empty, Loaded, Section, State, Table, type Tone } from '../ui';
import { listOf, member } from '../types';
import { Graph } from './graph';

interface Release {
  release: number;
  state: string;
  about: { createdMs: number; by: string; note: string; files: number; bytes: number };
}

const EVERY_MS = 10_000;
const TONES: Record<string, Tone> = { published: 'good', canary: 'warn', test: 'warn' };

type Files = Record<string, string>;

function parsed(text: string | undefined): unknown {
  try {
    return JSON.parse(text ?? 'null');
  } catch {
    return null;
  }
}

/** Both graphs in one: nodes that one of them lacks are marked, and those that differ. */
function union(before: unknown, after: unknown): { source: unknown; marks: Record<string, { severity: string; message: string }> } {
  const byId = (source: unknown): Map<string, unknown> => new Map(listOf(member(source, 'nodes')).map((node) => [String(member(node, 'id')), node]));
  const [old, now] = [byId(before), byId(after)];
  const marks: Record<string, { severity: string; message: string }> = {};
  for (const id of new Set([...old.keys(), ...now.keys()])) {
    const what = !old.has(id) ? 'added' : !now.has(id) ? 'removed' : JSON.stringify(old.get(id)) === JSON.stringify(now.get(id)) ? undefined : 'changed';
    if (what) marks[id] = { severity: what, message: what };
  }
  const edges = [...listOf(member(after, 'edges')), ...listOf(member(before, 'edges'))];
  const ends = (edge: unknown): string => JSON.stringify([member(edge, 'from') ?? member(edge, 'sourceId'), member(edge, 'to') ?? member(edge, 'targetId'), member(edge, 'case') ?? member(edge, 'sourceHandle')]);
  return { source: { nodes: [...new Map([...old, ...now]).values()], edges: [...new Map(edges.map((edge) => [ends(edge), edge])).values()] }, marks };
}

function FileDiff({ path, before, after }: { path: string; before: string | undefined; after: string | undefined }): JSX.Element {
  const graphs = [parsed(before), parsed(after)].filter((source) => Array.isArray(member(source, 'nodes')));
  const { source, marks } = union(parsed(before), parsed(after));
  const laidOut = (text: string | undefined): string => (text === undefined ? '' : path.endsWith('.json') ? indented(text) : text);
  return (
    <div class="panel">
      <h3>{path}</h3>
      {!path.includes('/') && graphs.length > 0 && <Graph name={path} source={source} marks={marks} chosen="" onChoose={() => {}} />}
      <Diff before={laidOut(before)} after={laidOut(after)} />
    </div>
  );
}

function Comparison({ from, to }: { from: string; to: string }): JSX.Element {
  const [chosen, setChosen] = useState<string | undefined>(undefined);
  const poll = usePoll(`${from} ${to}`, 0, (_, signal) => Promise.all([from, to].map((release) => get<Files>(`releases/${release}/files`, { signal }))));
  return (
    <Section title={`From release ${from} to ${to}`}>
      <Loaded poll={poll}>
        {([before = {}, after = {}]) => {
          const changed = [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((path) => before[path] !== after[path]).sort();
          const shown = chosen ?? changed[0];
          if (changed.length === 0) return <Empty title="Both have the same files" />;
          return (
            <>
              <Table
                label="Files that differ"
                noun="file"
                rows={changed}
                id={(path) => path}
                {...(shown && { chosen: shown })}
                columns={[
                  {
                    name: 'File',
                    cell: (path) => (
                      <button type="button" class="link" onClick={() => setChosen(path)}>
                        {path}
                      </button>
                    ),
                  },
                  { name: 'What', cell: (path) => (path in before ? (path in after ? 'changed' : <span class="bad">removed</span>) : <span class="good">added</span>) },
                ]}
              />
              {shown && <FileDiff key={shown} path={shown} before={before[shown]} after={after[shown]} />}
            </>
          );
        }}
      </Loaded>
    </Section>
  );
}

export function Releases(): JSX.Element {
  const { query } = useCell(place);
  const poll = usePoll<{ releases: Release[]; published: number | null; canary: { release?: number } | null }>('releases', EVERY_MS);
  const [from, to] = [query.get('from') ?? '', query.get('to') ?? ''];
  if (poll.error instanceof ApiError && poll.error.status === 404) {
    return (
      <Empty title="These workflows have no releases">
        They come from a folder. With <code>store</code> under <code>[workflow]</code> they have numbered releases in the store. <Docs page="guide/workflow-releases.md">About releases</Docs>
      </Empty>
    );
  }
  return (
    <Loaded poll={poll}>
      {({ releases, published }) => {
        if (releases.length === 0)
          return (
            <Empty title="There is no release yet">
              Make one with <code>forebay workflow import FOLDER</code>. <Docs page="guide/workflow-releases.md">About releases</Docs>
            </Empty>
          );
        const newest = [...releases].reverse();
        const choice = (name: 'from' | 'to', label: string, value: string): JSX.Element => (
          <label>
            {label}
            <select value={value} onChange={({ currentTarget }) => setQuery({ [name]: currentTarget.value })}>
              <option value="">–</option>
              {newest.map(({ release }) => (
                <option key={release}>{release}</option>
              ))}
            </select>
          </label>
        );
        return (
          <>
            <Section title={several(releases.length, 'release')} actions={published !== null && <State tone="good">{`release ${published} is published`}</State>}>
              <Table
                label="Releases"
                noun="release"
                rows={newest}
                id={({ release }) => String(release)}
                page={20}
                columns={[
                  { name: 'Release', sort: ({ release }) => release, cell: ({ release }) => release },
                  { name: 'State', cell: ({ state }) => <State tone={TONES[state] ?? 'none'}>{state}</State> },
                  { name: 'Made', sort: ({ about }) => about.createdMs, cell: ({ about }) => clock(about.createdMs) },
                  { name: 'By', wide: true, cell: ({ about }) => about.by },
                  { name: 'Note', cell: ({ about }) => about.note },
                  { name: 'Files', right: true, wide: true, cell: ({ about }) => number(about.files) },
                  { name: 'Size', right: true, wide: true, cell: ({ about }) => bytes(about.bytes) },
                ]}
              />
            </Section>
            <Section title="Compare">
              <div class="form">
                {choice('from', 'From', from)}
                {choice('to', 'To', to)}
              </div>
            </Section>
            {from && to && <Comparison key={`${from} ${to}`} from={from} to={to} />}
          </>
        );
      }}
    </Loaded>
  );
}
