import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, request, session } from '../api';
import { useCell } from '../cell';
import { useAction, usePoll } from '../hooks';
import { jsonError } from '../json';
import { link, place, setQuery } from '../place';
import { Docs, Empty, ErrorBox, Filter, Loaded, Page, Section, State } from '../ui';
import { member } from '../types';
import { Graph } from '../workflow/graph';
import { NodePanel } from '../workflow/node';
import { Releases } from '../workflow/releases';
import { marksOf, readTrace, type Trace } from '../workflow/trace';

interface Workflow {
  name: string;
  source: unknown;
}

/** The workflows in force, and their release. Those of a release are read as its files. */
async function readWorkflows(path: string, signal: AbortSignal): Promise<{ workflows: Workflow[]; release: number | null }> {
  const inForce = await get<{ workflows: Workflow[]; release: number | null }>(path, { signal });
  if (inForce.release === null) return inForce;
  const files = await get<Record<string, string>>(`releases/${inForce.release}/files`, { signal });
  const graphs = Object.entries(files).filter(([path]) => path.endsWith('.json') && !path.includes('/'));
  return { ...inForce, workflows: graphs.map(([path, text]) => ({ name: path.slice(0, -'.json'.length), source: JSON.parse(text) as unknown })) };
}

/** Names in the list at once. */
const SHOWN_MAX = 500;
/** Longest trace that is read from a file. */
const TRACE_MAX = 8 << 20;

/** Where a trace comes from: a run with arguments, a response that is pasted, or a file. */
function TraceSource({ name, edit, onTrace }: { name: string; edit: boolean; onTrace: (trace: Trace | undefined) => void }): JSX.Element {
  const [text, setText] = useState('{}');
  const runs = edit && jsonError(text) === undefined && readTrace(text) === undefined;
  const run = useAction(async () => {
    const { text: answer } = await request('POST', `workflows/${encodeURIComponent(name)}?trace`, { body: text });
    onTrace(readTrace(answer));
  });
  const paste = (text: string): void => {
    setText(text);
    const trace = readTrace(text);
    if (trace) onTrace(trace);
  };
  return (
    <Section title="Trace">
      <p class="quiet">
        Paste the response to a run with <code>?trace</code>{edit ? ', or run the workflow with these arguments' : ''}: what each node did is laid over the graph. <Docs page="guide/workflows.md#traces">About traces</Docs>
      </p>
      <div class="editor">
        <textarea aria-label={edit ? 'Arguments, or a trace' : 'A trace'} rows={4} spellcheck={false} value={text} onInput={({ currentTarget }) => paste(currentTarget.value)} />
        <ErrorBox error={run.error} />
        <div class="actions">
          {edit && (
            <button type="button" class="primary" disabled={!runs || run.busy} onClick={() => run.run()}>
              Run with trace
            </button>
          )}
          <label class="button">
            Open a file
            <input
              type="file"
              accept="application/json,.json"
              class="hidden"
              onChange={({ currentTarget }) => {
                const file = currentTarget.files?.[0];
                if (file && file.size <= TRACE_MAX) void file.text().then(paste);
              }}
            />
          </label>
          <button type="button" onClick={() => onTrace(undefined)}>
            Clear
          </button>
        </div>
      </div>
    </Section>
  );
}

function WorkflowPane({ workflow: { name, source }, edit }: { workflow: Workflow; edit: boolean }): JSX.Element {
  const [trace, setTrace] = useState<Trace | undefined>(undefined);
  const chosen = useCell(place).query.get('node') ?? '';
  const nodes = member(source, 'nodes');
  const node = Array.isArray(nodes) ? nodes.find((node: unknown) => String(member(node, 'id')) === chosen) : undefined;
  return (
    <>
      <div class="section">
        <h2>{name}</h2>
        {trace && <State tone={trace.failed ? 'bad' : 'good'}>{trace.summary}</State>}
      </div>
      <Graph name={name} source={source} marks={trace ? marksOf(trace) : {}} chosen={chosen} onChoose={(node) => setQuery({ node })} />
      {node !== undefined && <NodePanel node={node} trace={trace} onClose={() => setQuery({ node: undefined })} />}
      <TraceSource name={name} edit={edit} onTrace={setTrace} />
    </>
  );
}

export function Workflows(): JSX.Element {
  const { path, query } = useCell(place);
  const known = useCell(session);
  const [filter, setFilter] = useState('');
  const poll = usePoll(known?.workflows ? 'workflows' : undefined, 0, readWorkflows);
  const chosen = path[1];
  const releases = query.get('tab') === 'releases';
  if (!known?.workflows) {
    return (
      <Page title="Workflows">
        <Empty title="This server has no workflows">
          Add the section <code>[workflow]</code> to forebay.toml: it names a folder of graphs and decisions. <Docs page="guide/workflows.md">About workflows</Docs>
        </Empty>
      </Page>
    );
  }
  const tabs = (
    <div class="tabs">
      <a href={link(chosen ? ['workflows', chosen] : ['workflows'])} {...(!releases && { 'aria-current': 'true' })}>
        In force
      </a>
      <a href={link(['workflows'], { tab: 'releases' })} {...(releases && { 'aria-current': 'true' })}>
        Releases
      </a>
    </div>
  );
  const about = poll.data?.release !== null && poll.data?.release !== undefined ? `Release ${poll.data.release}` : undefined;
  return (
    <Page title="Workflows" about={about} actions={tabs}>
      {releases ? (
        <Releases />
      ) : (
        <Loaded poll={poll}>
          {({ workflows }) => {
            const workflow = workflows.find(({ name }) => name === chosen);
            const shown = workflows.filter(({ name }) => name.toLowerCase().includes(filter.toLowerCase()));
            if (workflows.length === 0)
              return (
                <Empty title="No workflow is in force">
                  Save a graph in the folder of [workflow] path, or publish a release. <Docs page="guide/workflow-releases.md">About releases</Docs>
                </Empty>
              );
            return (
              <div class={`split ${workflow ? 'chosen' : ''}`}>
                <nav aria-label="Workflows" class="tree">
                  <Filter label="Filter workflows" value={filter} onChange={setFilter} />
                  <ul>
                    {shown.slice(0, SHOWN_MAX).map(({ name }) => (
                      <li key={name} class="node">
                        <a href={link(['workflows', name])} {...(name === chosen && { 'aria-current': 'true' })}>
                          {name}
                        </a>
                      </li>
                    ))}
                    {shown.length > SHOWN_MAX && <li class="quiet">and {shown.length - SHOWN_MAX} more: filter them</li>}
                  </ul>
                </nav>
                <div class="pane">
                  {workflow ? <WorkflowPane key={workflow.name} workflow={workflow} edit={known.edit} /> : <Empty title={chosen ? 'There is no such workflow' : 'Choose a workflow'}>Its graph is drawn here; a node of it shows its rule, its table, or its expressions.</Empty>}
                </div>
              </div>
            );
          }}
        </Loaded>
      )}
    </Page>
  );
}
