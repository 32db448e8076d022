import { Component, render, type ComponentChildren, type ComponentType, type JSX } from 'preact';
import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import { lostSince, openSession, refusal, session, takeToken } from './api';
import { useCell } from './cell';
import { age } from './format';
import { usePoll } from './hooks';
import { link, place } from './place';
import { Bench } from './pages/bench';
import { Jobs } from './pages/jobs';
import { Logs } from './pages/logs';
import { Overview } from './pages/overview';
import { PoolPage } from './pages/pool';
import { Records } from './pages/records';
import { Requests } from './pages/requests';
import { RoutePage } from './pages/route';
import { Store } from './pages/store';
import { Workflows } from './pages/workflows';
import { choice, type Choice } from './scheme';
import { Dialog, Docs, Empty, State } from './ui';
import type { Health } from './types';

interface Entry {
  name: string;
  title: string;
  key: string;
  /** The path of its icon, in a square of 16. */
  icon: string;
  page: ComponentType;
}

const PAGES: Entry[] = [
  { name: 'overview', title: 'Overview', key: 'o', icon: 'M2 13V8.5M6 13V3M10 13V6.5M14 13V4.5', page: Overview },
  { name: 'requests', title: 'Requests', key: 'r', icon: 'M2 4h7M5 8h9M4 12h4', page: Requests },
  { name: 'store', title: 'Store', key: 's', icon: 'M3 4c0-2.4 10-2.4 10 0S3 6.4 3 4v8c0 2.4 10 2.4 10 0V4M3 8c0 2.4 10 2.4 10 0', page: Store },
  { name: 'logs', title: 'Logs', key: 'l', icon: 'M3 3h10M3 6.3h10M3 9.7h7M3 13h9', page: Logs },
  { name: 'records', title: 'Records', key: 'q', icon: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9M10.3 10.3 14 14', page: Records },
  { name: 'workflows', title: 'Workflows', key: 'w', icon: 'M6 2.5h4v3H6zM2 10.5h4v3H2zM10 10.5h4v3h-4zM8 5.5v2.5M4 10.5V8h8v2.5', page: Workflows },
  { name: 'jobs', title: 'Jobs', key: 'j', icon: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12M8 4.5V8l2.5 1.5', page: Jobs },
  { name: 'bench', title: 'Bench', key: 'b', icon: 'M2.5 12a6 6 0 1 1 11 0M8 10.5l2.5-4', page: Bench },
];
/** Pages of one thing, which belong to an entry of the navigation. */
const DETAILS: Record<string, { entry: string; page: ComponentType }> = { route: { entry: 'overview', page: RoutePage }, pool: { entry: 'overview', page: PoolPage } };
/** How many entries a phone shows before the others. */
const FIRST = 4;
/** Time between two keys that belong together. */
const CHORD_MS = 1500;
const HEALTH_MS = 5_000;

function Icon({ path }: { path: string }): JSX.Element {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linecap="round" stroke-linejoin="round">
      <path d={path} />
    </svg>
  );
}

function SchemeSwitch(): JSX.Element {
  const current = useCell(choice);
  return (
    <select aria-label="Colour scheme" value={current} onChange={({ currentTarget }) => (choice.value = currentTarget.value as Choice)}>
      <option value="system">As the system</option>
      <option value="light">Light</option>
      <option value="dark">Dark</option>
    </select>
  );
}

function Navigation({ current, onKeys, onToken }: { current: string; onKeys: () => void; onToken: () => void }): JSX.Element {
  const [open, setOpen] = useState(false);
  const known = useCell(session);
  const health = usePoll<Health>('/health/ready', HEALTH_MS);
  const lost = useCell(lostSince) !== undefined;
  useEffect(() => place.follow(() => setOpen(false)), []);
  return (
    <nav aria-label="Pages" class={open ? 'open' : ''}>
      <a class="brand" href={link(['overview'])}>
        <svg viewBox="0 0 16 16" width="20" height="20" aria-hidden="true">
          <rect width="16" height="16" rx="3.5" fill="var(--brand)" />
          <path d="M3 6.5c1.7-1.6 3.3-1.6 5 0s3.3 1.6 5 0M3 10.5c1.7-1.6 3.3-1.6 5 0s3.3 1.6 5 0" fill="none" stroke="#fff" stroke-width="1.5" stroke-linecap="round" />
        </svg>
        Forebay
      </a>
      <ul>
        {PAGES.map(({ name, title, icon }, at) => (
          <li key={name} class={at < FIRST ? '' : 'later'}>
            <a href={link([name])} {...(name === current && { 'aria-current': 'page' })}>
              <Icon path={icon} />
              <span>{title}</span>
            </a>
          </li>
        ))}
        <li class="toggle">
          <button type="button" aria-expanded={open} onClick={() => setOpen(!open)}>
            <Icon path="M3 8h.01M8 8h.01M13 8h.01" />
            <span>More</span>
          </button>
        </li>
      </ul>
      <div class="foot">
        <State tone={lost ? 'bad' : health.data === undefined ? 'none' : health.data.ready ? 'good' : 'bad'}>{lost ? 'no answer' : health.data === undefined ? '…' : health.data.ready ? 'ready' : 'not ready'}</State>
        <span class="quiet">{known && `${known.version}${known.edit ? '' : ', read only'}`}</span>
        <SchemeSwitch />
        <button type="button" class="plain" onClick={onKeys}>
          Keys <kbd>?</kbd>
        </button>
        {known?.tokens && (
          <button type="button" class="plain" onClick={onToken}>
            Token
          </button>
        )}
      </div>
    </nav>
  );
}

const KEYS: [string, string][] = [
  ...PAGES.map(({ key, title }): [string, string] => [`g ${key}`, title]),
  ['/', 'To the filter of the page'],
  ['Esc', 'Clear the filter, or close what is open'],
  ['Ctrl Enter', 'Run the statement, or save the document'],
  ['?', 'These keys'],
];

function Keys({ onClose }: { onClose: () => void }): JSX.Element {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              {keys.split(' ').map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

/** Keys of the whole page. They do nothing while somebody writes. */
function useKeys(onHelp: () => void): void {
  useEffect(() => {
    let chordAt = 0;
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target instanceof Element && event.target.closest('input, textarea, select, dialog')) return;
      const inChord = event.timeStamp - chordAt < CHORD_MS;
      chordAt = 0;
      const page = PAGES.find(({ key }) => inChord && key === event.key);
      if (page) location.hash = link([page.name]);
      else if (event.key === 'g') chordAt = event.timeStamp;
      else if (event.key === '?') onHelp();
      else if (event.key === '/') document.querySelector<HTMLInputElement>('input.filter')?.focus();
      else return;
      event.preventDefault();
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, [onHelp]);
}

function TokenForm({ onDone }: { onDone?: () => void }): JSX.Element {
  const [token, setText] = useState('');
  const [tried, setTried] = useState(false);
  const denied = useCell(refusal);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (await takeToken(token)) onDone?.();
    setTried(true);
  };
  return (
    <form class="token" onSubmit={(event) => void enter(event)}>
      <label>
        Token
        <input type="password" autocomplete="current-password" value={token} onInput={({ currentTarget }) => setText(currentTarget.value)} />
      </label>
      <button type="submit" class="primary">
        Use it
      </button>
      {denied && <p class={tried ? 'error' : ''}>{denied.message}</p>}
      <p class="quiet">
        The tokens are admin.read_token and admin.edit_token of the configuration. The browser keeps yours until this tab is closed. <Docs page="guide/console.md">About tokens</Docs>
      </p>
    </form>
  );
}

/** Tells what has gone wrong in place of a page that cannot be drawn. */
class Guard extends Component<{ children: ComponentChildren }, { error: Error | undefined }> {
  override state = { error: undefined };

  static override getDerivedStateFromError(error: Error): { error: Error } {
    return { error };
  }

  override render(): ComponentChildren {
    const { error }: { error: Error | undefined } = this.state;
    if (error === undefined) return this.props.children;
    return (
      <Empty title="This page could not be shown">
        {String(error)}. <a href={location.href} onClick={() => location.reload()}>Load it again</a>
      </Empty>
    );
  }
}

function Lost(): JSX.Element | null {
  const since = useCell(lostSince);
  const [, tick] = useState(0);
  useEffect(() => {
    if (since === undefined) return undefined;
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [since]);
  if (since === undefined) return null;
  return (
    <div class="lost" role="status">
      The server has not answered for {age((Date.now() - since) / 1000)}. What you see is from before; the page keeps trying.
    </div>
  );
}

function App(): JSX.Element {
  const { path } = useCell(place);
  const known = useCell(session);
  const denied = useCell(refusal);
  const lost = useCell(lostSince);
  const [dialog, setDialog] = useState<'keys' | 'token' | undefined>(undefined);
  const [help] = useState(() => () => setDialog('keys'));
  useKeys(help);
  const name = path[0] ?? 'overview';
  const detail = DETAILS[name];
  const current = PAGES.find((page) => page.name === (detail?.entry ?? name));
  const Current = detail?.page ?? current?.page;
  useEffect(() => {
    document.title = `${current?.title ?? 'Not found'} · Forebay`;
  }, [current]);
  useLayoutEffect(() => {
    // Those who hear the page are told that it is another one.
    document.querySelector<HTMLElement>('main h1')?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, [name]);
  if (denied && !known) {
    return (
      <main class="alone">
        <h1>Forebay</h1>
        <TokenForm />
      </main>
    );
  }
  if (!known) {
    return (
      <main class="alone">
        <h1>Forebay</h1>
        {lost === undefined ? <p class="quiet">Loading …</p> : <Lost />}
      </main>
    );
  }
  return (
    <>
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), document.querySelector<HTMLElement>('main')?.focus())}>
        To the content
      </a>
      <Navigation current={current?.name ?? ''} onKeys={help} onToken={() => setDialog('token')} />
      <main id="main" tabIndex={-1}>
        <Lost />
        <Guard key={name}>{Current ? <Current /> : <Empty title="There is no such page"><a href={link(['overview'])}>To the overview</a></Empty>}</Guard>
      </main>
      {dialog === 'keys' && <Keys onClose={() => setDialog(undefined)} />}
      {(dialog === 'token' || denied) && (
        <Dialog title="Token" onClose={() => (setDialog(undefined), (refusal.value = undefined))}>
          <TokenForm onDone={() => setDialog(undefined)} />
        </Dialog>
      )}
    </>
  );
}

const root = document.getElementById('app');
if (root) render(<App />, root);
void openSession();
