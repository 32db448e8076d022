import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { useAction, usePoll } from '../hooks';
import { preview } from '../json';
import { link } from '../place';
import { ErrorBox } from '../ui';
import { firstPage, isContainer, readChildren, type Child } from './nodes';

/** Children of a node that the tree shows at once; search finds the others. */
export const SHOWN_MAX = 500;

/** The children of an open node, a page at a time. */
function Branch({ path, chosen, version }: { path: string[]; chosen: readonly string[]; version: number }): JSX.Element {
  const address = path.join('\n');
  const first = usePoll(address, 0, (_, signal) => readChildren(path, firstPage(), signal), version);
  const [later, setLater] = useState<{ children: Child[]; next: string | undefined } | undefined>(undefined);
  useEffect(() => setLater(undefined), [first.data]);
  const next = later ? later.next : first.data?.next;
  const children = [...(first.data?.children ?? []), ...(later?.children ?? [])];
  const more = useAction(async () => {
    const page = await readChildren(path, next ?? '', new AbortController().signal);
    setLater({ children: [...(later?.children ?? []), ...page.children], next: page.next });
  });
  return (
    <>
      <ErrorBox error={first.error ?? more.error} />
      <ul>
        {children.map(({ key, value }) => (
          <TreeNode key={key} path={[...path, key]} value={value} chosen={chosen} version={version} />
        ))}
        {next && children.length < SHOWN_MAX && (
          <li>
            <button type="button" class="link" disabled={more.busy} onClick={() => more.run()}>
              more …
            </button>
          </li>
        )}
        {next && children.length >= SHOWN_MAX && <li class="quiet">there are more: search finds them</li>}
      </ul>
    </>
  );
}

/** A node; `value` is known of all but globals. Another `version` has what is open read again. */
export function TreeNode({ path, value, chosen, version }: { path: string[]; value?: unknown; chosen: readonly string[]; version: number }): JSX.Element {
  const within = path.every((segment, at) => segment === chosen[at]);
  const leads = within && chosen.length > path.length;
  const [open, setOpen] = useState(leads);
  // The tree opens to what is chosen elsewhere.
  useEffect(() => {
    if (leads) setOpen(true);
  }, [leads]);
  const branches = value === undefined || isContainer(value);
  const name = path.at(-1) ?? '';
  return (
    <li>
      <div class="node">
        {branches ? (
          <button type="button" class="plain twist" aria-expanded={open} aria-label={`${open ? 'Close' : 'Open'} ${name}`} onClick={() => setOpen(!open)}>
            {open ? '▾' : '▸'}
          </button>
        ) : (
          <span class="twist" />
        )}
        <a href={link(['store', ...path])} {...(within && chosen.length === path.length && { 'aria-current': 'true' })}>
          {name}
        </a>
        {value !== undefined && !isContainer(value) && <span class="quiet preview">{preview(value, 40)}</span>}
      </div>
      {open && <Branch path={path} chosen={chosen} version={version} />}
    </li>
  );
}
