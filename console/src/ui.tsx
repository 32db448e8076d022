/** What pages are made of. */
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import { ApiError, ServerLost } from './api';
import type { Action, Poll } from './hooks';
import { several } from './format';

const DOCS = 'https://github.com/forebay/forebay/blob/main/docs/';

export function Page({ title, about, actions, children }: { title: ComponentChildren; about?: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <>
      <header class="page">
        <div>
          <h1 tabIndex={-1}>{title}</h1>
          {about && <p class="quiet">{about}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

export function Section({ title, actions, children }: { title: ComponentChildren; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  return (
    <section>
      <div class="section">
        <h2>{title}</h2>
        {actions && <div class="actions">{actions}</div>}
      </div>
      {children}
    </section>
  );
}

/** A page of the documentation. */
export function Docs({ page, children }: { page: string; children: ComponentChildren }): JSX.Element {
  return (
    <a href={DOCS + page} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}

/** What there is to say in place of content: why it is empty and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="title">{title}</p>
      {children && <p>{children}</p>}
    </div>
  );
}

export function ErrorBox({ error }: { error: Error | undefined }): JSX.Element | null {
  // The banner at the top tells of a server that is lost.
  if (error === undefined || error instanceof ServerLost) return null;
  const denied = error instanceof ApiError && error.status === 403;
  return (
    <div class="error" role="alert">
      <strong>{error instanceof ApiError ? `${error.title} (${error.status})` : 'This did not work'}</strong>
      <p>{error.message}</p>
      {denied && <p class="quiet">A token that may edit (admin.edit_token) can be entered under “Token” in the navigation.</p>}
    </div>
  );
}

/** What a poll has read, or that it is being read, or why not. */
export function Loaded<T>({ poll, children }: { poll: Poll<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  return (
    <>
      <ErrorBox error={poll.error} />
      {poll.data !== undefined ? children(poll.data) : poll.error === undefined && <p class="loading quiet">Loading …</p>}
    </>
  );
}

export function Button<A extends unknown[]>({ action, given, children, ...rest }: { action: Action<A>; given: A; children: ComponentChildren; class?: string; disabled?: boolean }): JSX.Element {
  return (
    <button type="button" {...rest} disabled={rest.disabled === true || action.busy} onClick={() => action.run(...given)}>
      {children}
    </button>
  );
}

export type Tone = 'good' | 'warn' | 'bad' | 'none';

/** A state in a word, with a dot in its colour. */
export function State({ tone, children }: { tone: Tone; children: ComponentChildren }): JSX.Element {
  return <span class={`state ${tone}`}>{children}</span>;
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  const heading = useId();
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose} onClick={({ target }) => target === dialog.current && dialog.current?.close()}>
      <div class="dialog">
        <div class="section">
          <h2 id={heading}>{title}</h2>
          <button type="button" class="plain" aria-label="Close" onClick={() => dialog.current?.close()}>
            ✕
          </button>
        </div>
        {children}
      </div>
    </dialog>
  );
}

/** A button that asks once more before it does what cannot be undone. */
export function Confirm({ label, question, confirm, action, danger = true }: { label: string; question: ComponentChildren; confirm: string; action: Action<[]>; danger?: boolean }): JSX.Element {
  const [open, setOpen] = useState(false);
  return (
    <>
      <button type="button" disabled={action.busy} onClick={() => setOpen(true)}>
        {label}
      </button>
      {open && (
        <Dialog title={label} onClose={() => setOpen(false)}>
          <p>{question}</p>
          <div class="actions end">
            <button type="button" onClick={() => setOpen(false)}>
              Cancel
            </button>
            <button
              type="button"
              class={danger ? 'danger' : 'primary'}
              onClick={() => {
                setOpen(false);
                action.run();
              }}
            >
              {confirm}
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

/** An entry that `/` leads to and Escape clears. */
export function Filter({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }): JSX.Element {
  return (
    <input
      type="search"
      class="filter"
      aria-label={label}
      placeholder={`${label}  /`}
      value={value}
      onInput={({ currentTarget }) => onChange(currentTarget.value)}
      onKeyDown={(event) => {
        if (event.key !== 'Escape') return;
        onChange('');
        event.currentTarget.blur();
      }}
    />
  );
}

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  /** What rows are ordered by; without it the column orders nothing. */
  sort?: (row: Row) => number | string;
  /** Numbers stand to the right. */
  right?: boolean;
  /** Left out where there is little room. */
  wide?: boolean;
}

interface TableProps<Row> {
  /** What the rows are, for those who hear the page. */
  label: string;
  noun: string;
  rows: readonly Row[];
  columns: readonly Column<Row>[];
  id: (row: Row) => string;
  /** The name of the column by which rows are ordered first, with `-` from the largest on. Without it they stay as they come. */
  order?: string;
  chosen?: string;
  page?: number;
}

/** Rows, a page of them at a time. */
export function Table<Row>({ label, noun, rows, columns, id, order: first, chosen, page = 50 }: TableProps<Row>): JSX.Element {
  const [order, setOrder] = useState(first);
  const [shown, setShown] = useState(page);
  const down = order?.startsWith('-') ?? false;
  const by = columns.find(({ name }) => name === order?.replace(/^-/, ''))?.sort;
  const compare = (one: number | string, other: number | string): number =>
    typeof one === 'number' && typeof other === 'number' ? one - other : String(one).localeCompare(String(other), 'en', { numeric: true });
  const sorted = by ? [...rows].sort((one, other) => compare(by(one), by(other)) * (down ? -1 : 1)) : rows;
  const head = ({ name, sort, right, wide }: Column<Row>): JSX.Element => {
    const current = order === name || order === `-${name}`;
    const next = order === name ? `-${name}` : order === `-${name}` || !right ? name : `-${name}`;
    return (
      <th key={name} scope="col" class={`${right ? 'right' : ''} ${wide ? 'wide' : ''}`} {...(current && { 'aria-sort': down ? 'descending' : 'ascending' })}>
        {sort ? (
          <button type="button" class="plain" onClick={() => setOrder(next)}>
            {name}
            <span aria-hidden="true" class={current ? 'arrow' : 'arrow none'}>
              {down ? '↓' : '↑'}
            </span>
          </button>
        ) : (
          name
        )}
      </th>
    );
  };
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table>
          <thead>
            <tr>{columns.map(head)}</tr>
          </thead>
          <tbody>
            {sorted.slice(0, shown).map((row) => (
              <tr key={id(row)} {...(chosen === id(row) && { class: 'chosen' })}>
                {columns.map(({ name, cell, right, wide }) => (
                  <td key={name} class={`${right ? 'right' : ''} ${wide ? 'wide' : ''}`}>
                    {cell(row)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > shown && (
        <p class="more">
          <button type="button" onClick={() => setShown(shown + page)}>
            Show more
          </button>{' '}
          <span class="quiet">
            {shown} of {several(rows.length, noun)}
          </span>
        </p>
      )}
    </>
  );
}
