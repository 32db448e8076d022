import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, request, session } from '../api';
import { useCell } from '../cell';
import { several } from '../format';
import { useAction, useKept } from '../hooks';
import { exact, Json, preview } from '../json';
import { link } from '../place';
import { Docs, Empty, Page, Section, Table, type Column } from '../ui';
import { listOf, member, numberOf, textOf } from '../types';

const HISTORY = 50;
/** Columns of a table at most; a row opens the others. */
const COLUMNS_MAX = 8;

interface Outcome {
  statement: string;
  text: string;
  took_ms: number;
}

/** A row of the results as columns: the record's members, where it has no template. */
function cells(row: unknown): Record<string, unknown> {
  const data = member(row, 'data');
  const shown = member(row, 'id') !== undefined && typeof data === 'object' && data !== null ? { id: member(row, 'id'), ...data } : row;
  return typeof shown === 'object' && shown !== null && !Array.isArray(shown) ? (shown as Record<string, unknown>) : { value: shown };
}

/** The place of a record's document: a kind is a global, references its subscripts. */
function documentOf(row: Record<string, unknown>): string | undefined {
  const [kind, id] = [row['kind'], row['id'] ?? row['ref']];
  return typeof kind === 'string' && id !== undefined ? link(['store', kind, String(id)]) : undefined;
}

function Results({ outcome: { text, took_ms } }: { outcome: Outcome }): JSX.Element {
  const [raw, setRaw] = useState(false);
  const answer = exact(text);
  const results = member(answer, 'results');
  const rows = listOf(results).map(cells);
  const names = [...new Set(rows.flatMap(Object.keys))];
  const columns = names.slice(0, COLUMNS_MAX).map((name): Column<[number, Record<string, unknown>]> => {
    const numeric = rows.every((row) => row[name] === undefined || row[name] === null || typeof row[name] === 'number') && name !== 'id';
    const value = (row: Record<string, unknown>): JSX.Element | string => {
      if (row[name] === undefined) return '';
      const shown = preview(row[name], 80);
      const address = name === 'id' ? documentOf(row) : undefined;
      return address ? <a href={address}>{shown}</a> : <span class={typeof row[name] === 'object' ? 'code' : ''}>{shown}</span>;
    };
    return { name, right: numeric, sort: ([, row]) => numberOf(row[name]) ?? preview(row[name]), cell: ([, row]) => value(row) };
  });
  const truncated = member(answer, 'truncated');
  const about = Array.isArray(results) ? several(rows.length, 'row') : 'Done';
  return (
    <Section
      title={`${about} in ${Math.round(took_ms)} ms`}
      actions={
        <button type="button" aria-pressed={raw} onClick={() => setRaw(!raw)}>
          JSON
        </button>
      }
    >
      {truncated !== undefined && <p class="warn">These are not all: {preview(truncated)}. Ask with LIMIT and CURSOR, or for less.</p>}
      {raw || !Array.isArray(results) ? (
        <Json text={text} />
      ) : rows.length === 0 ? (
        <Empty title="Nothing matches" />
      ) : (
        <Table label="Results" noun="row" rows={rows.map((row, at): [number, Record<string, unknown>] => [at, row])} id={([at]) => String(at)} columns={columns} />
      )}
      {names.length > COLUMNS_MAX && <p class="quiet">{names.length - COLUMNS_MAX} more members are in the JSON.</p>}
    </Section>
  );
}

/** The line of a statement in which an error is, with its place. */
function Mistake({ statement, error }: { statement: string; error: Error }): JSX.Element {
  const [line, column] = (/\(line (\d+), column (\d+)\)/.exec(error.message) ?? []).slice(1).map(Number);
  return (
    <div class="error" role="alert">
      <strong>{error instanceof ApiError ? `${error.title} (${error.status})` : 'This did not work'}</strong>
      <p>{error.message}</p>
      {line !== undefined && column !== undefined && <pre class="code" tabIndex={0}>{`${statement.split('\n')[line - 1] ?? ''}\n${' '.repeat(Math.max(0, column - 1))}^ line ${line}, column ${column}`}</pre>}
    </div>
  );
}

const changes = (statement: string): boolean => /\b(INSERT|UPDATE|DELETE)\b|"(insert|update|delete)"/i.test(statement);

export function Records(): JSX.Element {
  const known = useCell(session);
  const [history, keep] = useKept<string[]>('tql', []);
  const [statement, setStatement] = useState(history[0] ?? 'SELECT {"id": $ref, "kind": kind} LIMIT 20');
  const [outcome, setOutcome] = useState<Outcome | undefined>(undefined);
  const run = useAction(async () => {
    const began = performance.now();
    const json = statement.trimStart().startsWith('{');
    keep([statement, ...history.filter((other) => other !== statement)].slice(0, HISTORY));
    const { text } = await request('POST', 'tql', { body: statement, headers: { 'content-type': json ? 'application/json' : 'text/plain' } });
    setOutcome({ statement, text, took_ms: performance.now() - began });
  });
  if (!known?.store) {
    return (
      <Page title="Records">
        <Empty title="This server has no records">
          Records are documents of the store that TQL asks for: add the section <code>[store]</code> to forebay.toml. <Docs page="guide/records.md">About records</Docs>
        </Empty>
      </Page>
    );
  }
  return (
    <Page title="Records" about={<Docs page="reference/tql.md">TQL, clause by clause</Docs>}>
      <div class="editor">
        <textarea
          class="filter"
          aria-label="Statement"
          spellcheck={false}
          rows={Math.min(12, Math.max(3, statement.split('\n').length))}
          value={statement}
          onInput={({ currentTarget }) => setStatement(textOf(currentTarget.value))}
          onKeyDown={(event) => {
            if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) run.run();
            if (event.key === 'Escape') event.currentTarget.blur();
          }}
        />
        <div class="actions">
          <button type="button" class="primary" disabled={run.busy || statement.trim() === ''} onClick={() => run.run()}>
            Run <kbd>Ctrl Enter</kbd>
          </button>
          {history.length > 0 && (
            <select aria-label="History" value="" onChange={({ currentTarget }) => setStatement(currentTarget.value)}>
              <option value="">History</option>
              {history.map((statement) => (
                <option key={statement} value={statement}>
                  {preview(statement, 60)}
                </option>
              ))}
            </select>
          )}
          {!known.edit && changes(statement) && <span class="warn">This statement changes records, which needs a token that may edit.</span>}
        </div>
      </div>
      {run.error ? <Mistake statement={statement} error={run.error} /> : outcome ? <Results key={outcome.text} outcome={outcome} /> : <Empty title="Run a statement">Its rows appear here, each with a link to its document.</Empty>}
    </Page>
  );
}
