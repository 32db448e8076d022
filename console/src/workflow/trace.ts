/** What each node of a run did, from the response to a run with `?trace`: of graphs a list of steps, of decisions an object by node. */
import { duration } from '../format';
import { listOf, member, numberOf, textOf } from '../types';

/** A time as GoRules writes it, `12.3µs`, with a space before its unit. */
const spaced = (time: unknown): string => textOf(time).replace(/(\d)(\D+)$/, '$1 $2');

export interface Step {
  node: string;
  state: 'true' | 'false' | 'failed' | 'done' | 'unfinished';
  took: string;
  error: string;
  input: unknown;
  output: unknown;
  /** Rows of a decision table that matched, by their index. */
  rows: number[];
}

export interface Trace {
  steps: Step[];
  failed: boolean;
  summary: string;
}

function ofGraph(step: unknown): Step {
  const [state, error, took] = [member(step, 'state'), member(step, 'error'), numberOf(member(step, 'tookMs'))];
  const said = typeof error === 'string' ? error : error === undefined || error === null ? '' : JSON.stringify(error);
  return {
    node: String(member(step, 'node')),
    state: said ? 'failed' : took === undefined ? 'unfinished' : state === false ? 'false' : 'true',
    took: took === undefined ? '' : duration(took * 1000),
    error: said,
    input: member(step, 'input'),
    output: member(step, 'output') ?? member(step, 'valueMap'),
    rows: [],
  };
}

function ofDecision([node, step]: [string, unknown]): Step {
  const data = member(step, 'traceData');
  const hits = (Array.isArray(data) ? data : [data]).flatMap((hit) => numberOf(member(hit, 'index')) ?? []);
  return { node, state: 'done', took: spaced(member(step, 'performance')), error: '', input: member(step, 'input'), output: member(step, 'output'), rows: hits };
}

/** The trace in a response, or nothing if the text is none. */
export function readTrace(text: string): Trace | undefined {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    return undefined;
  }
  const trace = member(answer, 'trace');
  if (Array.isArray(trace)) {
    const steps = trace.map(ofGraph);
    const error = member(answer, 'error') ?? member(answer, 'detail');
    const state = member(answer, 'state');
    return { steps, failed: state === undefined, summary: state === undefined ? `failed: ${typeof error === 'string' ? error : 'see the node'}` : String(state) };
  }
  if (typeof trace !== 'object' || trace === null) return undefined;
  const steps = Object.entries(trace).map(ofDecision);
  const failedNode = textOf(member(answer, 'nodeId'));
  if (failedNode) steps.push({ node: failedNode, state: 'failed', took: '', error: textOf(member(answer, 'source')), input: undefined, output: undefined, rows: [] });
  return { steps, failed: failedNode !== '', summary: failedNode ? textOf(member(answer, 'source')) : `decided in ${spaced(member(answer, 'performance'))}` };
}

/** The state of each node, for the drawing. Of several steps of a node the last one counts. */
export function marksOf({ steps }: Trace): Record<string, { severity: string; message: string }> {
  const counts = new Map<string, number>();
  for (const { node } of steps) counts.set(node, (counts.get(node) ?? 0) + 1);
  const mark = ({ node, state, took, error }: Step): [string, { severity: string; message: string }] => {
    const times = counts.get(node) ?? 1;
    return [node, { severity: `step-${state}`, message: [state, took, times > 1 ? `${times} times` : '', error].filter(Boolean).join(', ') }];
  };
  return Object.fromEntries(steps.map(mark));
}

export const stepsOf = (trace: Trace | undefined, node: string): Step[] => listOf(trace?.steps).filter((step): step is Step => member(step, 'node') === node);
