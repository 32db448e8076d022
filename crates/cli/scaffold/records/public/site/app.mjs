// What the address says is what is shown: `#/Article`, `#/Article?search=…`, `#/Article/new`, `#/Article/12`, `#/Article/12/edit`.
import { kinds } from '../kinds.mjs';
import { confirm } from './dialog.mjs';
import { h } from './dom.mjs';
import { isReference } from './fields.mjs';
import { showEdit, showNew } from './form.mjs';
import { showList } from './list.mjs';
import { heading, showRecord } from './record.mjs';
import { Failure } from './server.mjs';

/** How long a message stays that only says that something went well. */
const SAID_MS = 6000;

const main = document.querySelector('main');
const sides = document.querySelector('#kinds');
const notice = document.querySelector('#notice');

let leaving = new AbortController();
let isUnsaved;
let here;
let isAsking = false;
let saying;

/** What views know of the page that they are in, until another one is shown. */
class Page {
  constructor(signal) {
    this.signal = signal;
  }

  href(steps, query) {
    const tail = query === undefined || query.size === 0 ? '' : `?${query}`;
    return `#/${steps.map(encodeURIComponent).join('/')}${tail}`;
  }

  go(steps, { replaces = false } = {}) {
    isUnsaved = undefined;
    const href = this.href(steps);
    if (replaces) {
      history.replaceState(null, '', href);
      show(true);
    } else {
      location.hash = href;
    }
  }

  /** Gives what is shown another address, without showing anything anew. */
  rename(steps, query, replaces) {
    const href = this.href(steps, query);
    if (href === location.hash) return;
    if (replaces) history.replaceState(null, '', href);
    else history.pushState(null, '', href);
    here = href;
  }

  title(text) {
    document.title = `${text} · Records`;
  }

  /** Says something for a moment, or until it is closed. */
  say(text, stays = false) {
    clearTimeout(saying);
    const close = h('button', { type: 'button', class: 'quiet', 'aria-label': 'Close the message', onclick: () => notice.replaceChildren() }, '×');
    notice.replaceChildren(h('p', { class: stays ? 'bad' : undefined }, text, ' ', close));
    if (!stays) saying = setTimeout(() => notice.replaceChildren(), SAID_MS);
  }

  /** Gives the focus to the heading, as after a page of its own has come. */
  focus() {
    main.querySelector('h1')?.focus();
  }

  /** Asks before it is left whether that is meant, as long as `unsaved` says that something would be lost. */
  guard(unsaved) {
    isUnsaved = unsaved;
  }

  /** Any error as what can be shown. */
  failure(error) {
    if (error instanceof Failure) return error;
    console.error(error);
    return new Failure('The page has met something that it does not know.', { hint: String(error?.message ?? error) });
  }
}

async function show(moves) {
  here = location.hash;
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const page = new Page(signal);
  main.replaceChildren();
  const place = read(here);
  for (const link of sides.querySelectorAll('a')) {
    if (link.dataset.kind === place?.kind) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
  if (place === undefined) {
    page.title('Not found');
    main.append(heading('There is nothing here', undefined, page), h('p', {}, 'The address leads to no kind of record. Choose one of the list.'));
  } else {
    const { kind, ref, does, query } = place;
    page.title(kinds[kind].label ?? kind);
    const shown = does === 'list' ? showList(main, kind, query, page) : does === 'new' ? showNew(main, kind, page) : does === 'edit' ? showEdit(main, kind, ref, page) : showRecord(main, kind, ref, page);
    if (moves) page.focus();
    await shown;
  }
  // Some headings come with what they are about; whoever has gone on meanwhile is left there.
  const { activeElement } = document;
  if (moves && !signal.aborted && (activeElement === document.body || activeElement === main)) page.focus();
}

/** What an address asks for; undefined when it is none. */
function read(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  let steps;
  try {
    steps = path.split('/').map(decodeURIComponent);
  } catch {
    return undefined;
  }
  const [kind, ref, does, ...more] = steps;
  if (!Object.hasOwn(kinds, kind) || more.length > 0) return undefined;
  if (ref === undefined || ref === '') return { kind, does: 'list', query: new URLSearchParams(query) };
  if (ref === 'new' && does === undefined) return { kind, does: 'new' };
  if (!isReference(ref) || !['edit', undefined].includes(does)) return undefined;
  return { kind, ref, does: does ?? 'view' };
}

addEventListener('hashchange', async () => {
  if (location.hash === here) return;
  if (isUnsaved?.()) {
    const wanted = location.hash;
    // Back to the form until it is known whether that is to be left.
    history.pushState(null, '', here);
    if (isAsking) return;
    isAsking = true;
    const isSure = await confirm({ title: 'Leave without saving?', text: 'What you have entered will be lost.', yes: 'Leave', no: 'Go on editing' });
    isAsking = false;
    if (!isSure) return;
    isUnsaved = undefined;
    history.replaceState(null, '', wanted);
  }
  isUnsaved = undefined;
  show(true);
});

addEventListener('beforeunload', (event) => {
  if (isUnsaved?.()) event.preventDefault();
});

addEventListener('keydown', (event) => {
  const isTyping = event.target.closest('input, textarea, select, dialog') !== null;
  if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const search = document.querySelector('#search');
  if (search === null) return;
  event.preventDefault();
  search.focus();
});

// Its address is a place in the page, and not one of those that say what is shown.
document.querySelector('.skip').addEventListener('click', (event) => {
  event.preventDefault();
  main.focus();
});

const names = Object.keys(kinds);
sides.append(...names.map((kind) => h('li', {}, h('a', { href: `#/${encodeURIComponent(kind)}`, 'data-kind': kind }, kinds[kind].label ?? kind))));
if (['', '#', '#/'].includes(location.hash) && names.length > 0) history.replaceState(null, '', `#/${encodeURIComponent(names[0])}`);
show(false);
