import type { JSX } from 'preact';
import { Json } from '../json';
import { listOf, member, textOf } from '../types';
import { stepsOf, type Step, type Trace } from './trace';

/** Rows and steps shown at once. */
const ROWS_MAX = 500;
const STEPS_MAX = 20;

/** A decision table, read from left to right: inputs, then outputs. */
function DecisionTable({ content, hits }: { content: unknown; hits: number[] }): JSX.Element {
  const [inputs, outputs, rules] = ['inputs', 'outputs', 'rules'].map((name) => listOf(member(content, name)));
  const heads = (columns: unknown[], kind: string): JSX.Element[] =>
    columns.map((column) => (
      <th key={String(member(column, 'id'))} scope="col" class={kind}>
        {textOf(member(column, 'name')) || textOf(member(column, 'field'))}
        <code>{textOf(member(column, 'field'))}</code>
      </th>
    ));
  const cells = (columns: unknown[], rule: unknown, kind: string): JSX.Element[] =>
    columns.map((column) => {
      const id = String(member(column, 'id'));
      return (
        <td key={id} class={kind}>
          {textOf(member(rule, id)) ? <code>{textOf(member(rule, id))}</code> : <span class="quiet">{kind === 'input' ? 'any' : ''}</span>}
        </td>
      );
    });
  const policy = textOf(member(content, 'hitPolicy')) || 'first';
  return (
    <>
      <p class="quiet">{policy === 'collect' ? 'Collects the results of all rows that match.' : 'The first row that matches decides.'}</p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Decision table">
        <table class="decision">
          <thead>
            <tr>
              <th scope="col" class="right">
                Row
              </th>
              {heads(inputs ?? [], 'input')}
              {heads(outputs ?? [], 'output')}
            </tr>
          </thead>
          <tbody>
            {(rules ?? []).slice(0, ROWS_MAX).map((rule, at) => (
              <tr key={at} {...(hits.includes(at) && { class: 'chosen' })}>
                <th scope="row" class="right">
                  {at + 1}
                </th>
                {cells(inputs ?? [], rule, 'input')}
                {cells(outputs ?? [], rule, 'output')}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {(rules ?? []).length > ROWS_MAX && <p class="quiet">The first {ROWS_MAX} rows are shown.</p>}
    </>
  );
}

/** Pairs of a name and an expression. */
function Pairs({ label, heads, rows }: { label: string; heads: [string, string]; rows: [string, string][] }): JSX.Element {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label={label}>
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.slice(0, ROWS_MAX).map(([name, expression], at) => (
            <tr key={at}>
              <th scope="row">{name}</th>
              <td>
                <code>{expression}</code>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What a node is, as its kind is best read. */
function Content({ node, hits }: { node: unknown; hits: number[] }): JSX.Element {
  const content = member(node, 'content');
  const texts = (name: string, first: string, second: string): [string, string][] => listOf(member(content, name)).map((entry) => [textOf(member(entry, first)), textOf(member(entry, second))]);
  switch (member(node, 'type')) {
    case 'decisionTableNode':
      return <DecisionTable content={content} hits={hits} />;
    case 'expressionNode':
      return <Pairs label="Expressions" heads={['Name', 'Expression']} rows={texts('expressions', 'key', 'value')} />;
    case 'switchNode':
      return <Pairs label="Conditions" heads={['Branch', 'Condition']} rows={texts('statements', 'id', 'condition').map(([, condition], at) => [String(at + 1), condition || 'otherwise'])} />;
    case 'functionNode':
      return (
        <pre class="code" tabIndex={0}>
          {typeof content === 'string' ? content : textOf(member(content, 'source'))}
        </pre>
      );
    default:
      return <Json text={JSON.stringify(node)} />;
  }
}

function StepView({ step }: { step: Step }): JSX.Element {
  return (
    <div class="step">
      <h4>
        {step.state}
        {step.took && ` in ${step.took}`}
      </h4>
      {step.error && <p class="bad">{step.error}</p>}
      <div class="columns">
        {(['input', 'output'] as const).map((name) => (
          <div key={name}>
            <h5>{name === 'input' ? 'Input' : 'Output'}</h5>
            {step[name] === undefined ? <p class="quiet">none</p> : <Json text={JSON.stringify(step[name])} />}
          </div>
        ))}
      </div>
    </div>
  );
}

export function NodePanel({ node, trace, onClose }: { node: unknown; trace: Trace | undefined; onClose: () => void }): JSX.Element {
  const id = String(member(node, 'id'));
  const steps = stepsOf(trace, id);
  return (
    <div class="panel">
      <div class="section">
        <h3>
          {textOf(member(node, 'name')) || id} <span class="quiet">{textOf(member(node, '@type')) || textOf(member(node, 'type')).replace(/Node$/, '')}</span>
        </h3>
        <button type="button" class="plain" aria-label="Close" onClick={onClose}>
          ✕
        </button>
      </div>
      {trace && steps.length === 0 && <p class="quiet">The run did not come to this node.</p>}
      <Content node={node} hits={steps.flatMap(({ rows }) => rows)} />
      {steps.slice(0, STEPS_MAX).map((step, at) => (
        <StepView key={at} step={step} />
      ))}
      {steps.length > STEPS_MAX && <p class="quiet">The first {STEPS_MAX} of {steps.length} times are shown.</p>}
    </div>
  );
}
