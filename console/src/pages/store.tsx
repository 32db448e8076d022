import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { ApiError, session } from '../api';
import { useCell } from '../cell';
import { usePoll } from '../hooks';
import { preview } from '../json';
import { link, place, setQuery } from '../place';
import { Changes } from '../store/changes';
import { DocumentView, NewChild } from '../store/document';
import { firstPage, readChildren, readDocument } from '../store/nodes';
import { SHOWN_MAX, TreeNode } from '../store/tree';
import { Docs, Empty, ErrorBox, Loaded, Page, Table } from '../ui';

/** Where one is, each part a link. */
function Crumbs({ path }: { path: readonly string[] }): JSX.Element {
  return (
    <h2 class="crumbs">
      {path.map((segment, at) => (
        <span key={at}>
          {at > 0 && <span class="quiet"> / </span>}
          <a href={link(['store', ...path.slice(0, at + 1)])}>{segment}</a>
        </span>
      ))}
    </h2>
  );
}

/** The children of a node, or those that conditions find through an index. */
function Children({ path, version }: { path: readonly string[]; version: number }): JSX.Element {
  const { query } = useCell(place);
  const where = query.get('where') ?? '';
  const index = query.get('index') ?? '';
  const [typed, setTyped] = useState({ where, index });
  const [pages, setPages] = useState<string[]>([]);
  const conditions = where.split(/\s+&\s+/).filter(Boolean);
  const page = pages.at(-1) ?? firstPage(conditions, index);
  const poll = usePoll(`${path.join('\n')} ${page}`, 0, (_, signal) => readChildren(path, page, signal), version);
  const search = (event: Event): void => {
    event.preventDefault();
    setPages([]);
    setQuery(typed);
  };
  return (
    <>
      <form class="form" onSubmit={search}>
        <label class="grow">
          Find
          <input class="filter" placeholder={'name=Ada & age>=30  /'} value={typed.where} onInput={({ currentTarget }) => setTyped({ ...typed, where: currentTarget.value })} />
        </label>
        <label>
          Index
          <input placeholder="any that fits" size={12} value={typed.index} onInput={({ currentTarget }) => setTyped({ ...typed, index: currentTarget.value })} />
        </label>
        <button type="submit">Find</button>
      </form>
      <Loaded poll={poll}>
        {({ children, next }) => (
          <>
            {children.length === 0 ? (
              <Empty title={where || index ? 'Nothing matches' : 'This node has no children'}>{where && <Docs page="guide/store.md#find-by-value">How conditions are written</Docs>}</Empty>
            ) : (
              <Table
                label="Children"
                noun="child"
                rows={children}
                id={({ key }) => key}
                columns={[
                  { name: 'Key', cell: ({ key }) => <a href={link(['store', ...path, key])}>{key}</a> },
                  { name: 'Document', cell: ({ value }) => <code class="clip">{preview(value, 200)}</code> },
                ]}
              />
            )}
            <div class="actions">
              {pages.length > 0 && (
                <button type="button" onClick={() => setPages(pages.slice(0, -1))}>
                  ← Page before
                </button>
              )}
              {next && (
                <button type="button" onClick={() => setPages([...pages, next])}>
                  Next page →
                </button>
              )}
            </div>
          </>
        )}
      </Loaded>
    </>
  );
}

function Node({ path, edit, version, onChange }: { path: string[]; edit: boolean; version: number; onChange: () => void }): JSX.Element {
  const isGlobal = path.length === 1;
  const [listed, setListed] = useState(false);
  const document = usePoll(isGlobal ? undefined : path.join('\n'), 0, (_, signal) => readDocument(path, signal), version);
  const missing = document.error instanceof ApiError && document.error.status === 404;
  const tooLong = document.error instanceof ApiError && document.error.status === 413;
  return (
    <>
      <Crumbs path={path} />
      {missing ? (
        <Empty title="There is no such node">It may have been deleted or have expired.</Empty>
      ) : (
        <>
          <ErrorBox error={document.error} />
          {document.data && <DocumentView path={path} document={document.data} edit={edit} onChange={onChange} />}
        </>
      )}
      {isGlobal || tooLong || listed ? (
        <Children path={path} version={version} />
      ) : (
        /^[{[]/.test(document.data?.text ?? '') && (
          <button type="button" onClick={() => setListed(true)}>
            List and search its children
          </button>
        )
      )}
      {edit && !missing && <NewChild path={path} onChange={onChange} />}
    </>
  );
}

export function Store(): JSX.Element {
  const { path, query } = useCell(place);
  const known = useCell(session);
  const [version, setVersion] = useState(0);
  const globals = usePoll<{ globals: string[] }>(known?.store ? 'globals' : undefined, 0, undefined, version);
  const chosen = path.slice(1);
  const changes = query.get('tab') === 'changes';
  if (!known?.store) {
    return (
      <Page title="Store">
        <Empty title="This server has no store">
          Add the section <code>[store]</code> to forebay.toml and start the server again. <Docs page="guide/store.md">About the store</Docs>
        </Empty>
      </Page>
    );
  }
  const tabs = (
    <div class="tabs">
      <a href={link(['store', ...chosen])} {...(!changes && { 'aria-current': 'true' })}>
        Browse
      </a>
      <a href={link(['store', ...chosen], { tab: 'changes' })} {...(changes && { 'aria-current': 'true' })}>
        Changes
      </a>
    </div>
  );
  return (
    <Page title="Store" actions={tabs}>
      {changes ? (
        <Changes />
      ) : (
        <div class={`split ${chosen.length > 0 ? 'chosen' : ''}`}>
          <nav aria-label="Nodes" class="tree">
            <Loaded poll={globals}>
              {({ globals }) =>
                globals.length === 0 ? (
                  <Empty title="The store is empty">
                    Import documents with <code>forebay store import</code>, or write the first one from a handler.
                  </Empty>
                ) : (
                  <ul>
                    {globals.slice(0, SHOWN_MAX).map((name) => (
                      <TreeNode key={name} path={[name]} chosen={chosen} version={version} />
                    ))}
                    {globals.length > SHOWN_MAX && <li class="quiet">and {globals.length - SHOWN_MAX} more</li>}
                  </ul>
                )
              }
            </Loaded>
          </nav>
          <div class="pane">{chosen.length > 0 ? <Node key={chosen.join('\n')} path={chosen} edit={known.edit} version={version} onChange={() => setVersion(version + 1)} /> : <Empty title="Choose a node">Documents open here. A global shows its children, and finds them by value.</Empty>}</div>
        </div>
      )}
    </Page>
  );
}
