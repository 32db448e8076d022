// The records of a kind, a page at a time.
import { kinds } from '../kinds.mjs';
import { h, trouble, waiting } from './dom.mjs';
import { brief, canSearch, columnsOf, fieldsOf, searchFor, titleOf } from './fields.mjs';
import { Exact } from './json.mjs';
import * as server from './server.mjs';

const SIZE = 25;
/** How long one types on before the list follows. */
const TYPING_MS = 200;
const SEARCH_LENGTH_MAX = 200;

/** Shows the list that `query` asks for, and follows what is asked of it then. */
export function showList(main, kind, query, page) {
  const columns = columnsOf(kind);
  const first = fieldsOf(kind)[0];
  const state = read(query, columns);
  let asking = new AbortController();
  let typing;
  page.signal.addEventListener('abort', () => {
    asking.abort();
    clearTimeout(typing);
  });

  const amount = h('p', { class: 'amount', role: 'status' });
  const search = h('input', { id: 'search', type: 'search', value: state.search, maxlength: SEARCH_LENGTH_MAX, placeholder: 'Find', autocomplete: 'off', 'aria-label': `Find in ${kind}` });
  search.addEventListener('input', () => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ search: search.value.trim(), page: 0 }, true), TYPING_MS);
  });
  const heads = columns.map((field) => {
    const button = h('button', { type: 'button', onclick: () => change({ sort: state.sort === field.name ? `-${field.name}` : field.name, page: 0 }) }, field.label);
    return { field, head: h('th', { scope: 'col', class: field.type }, button) };
  });
  const rows = h('tbody');
  const table = h(
    'table',
    { 'aria-label': kind },
    h('thead', {}, h('tr', {}, heads.map(({ head }) => head), h('th', { scope: 'col', class: 'ref' }, 'Reference'))),
    rows,
  );
  const back = h('button', { type: 'button', onclick: () => change({ page: state.page - 1 }) }, '← Previous');
  const on = h('button', { type: 'button', onclick: () => change({ page: state.page + 1 }) }, 'Next →');
  const place = h('span');
  const pager = h('nav', { class: 'pager', 'aria-label': 'Pages' }, back, place, on);
  const content = h('div', { class: 'content' });
  main.append(
    h(
      'header',
      { class: 'top' },
      h('div', {}, h('h1', { tabindex: -1 }, kinds[kind].label ?? kind), amount),
      h('div', { class: 'actions' }, h('a', { class: 'button primary', href: page.href([kind, 'new']) }, `New ${kind}`)),
    ),
    canSearch(kind) ? h('div', { class: 'search', role: 'search' }, search) : '',
    content,
  );

  function change(changes, replaces = false) {
    Object.assign(state, changes);
    page.rename([kind], write(state), replaces);
    load();
  }

  async function load() {
    asking.abort();
    asking = new AbortController();
    const { signal } = asking;
    for (const { field, head } of heads) {
      const direction = state.sort === field.name ? 'ascending' : state.sort === `-${field.name}` ? 'descending' : undefined;
      if (direction === undefined) head.removeAttribute('aria-sort');
      else head.setAttribute('aria-sort', direction);
    }
    content.setAttribute('aria-busy', 'true');
    if (content.childElementCount === 0 || !content.contains(table)) content.replaceChildren(waiting('Looking for records'));
    try {
      const wanted = state.search === '' ? undefined : searchFor(kind, state.search);
      const sorted = heads.find(({ field }) => [field.name, `-${field.name}`].includes(state.sort));
      const sort = sorted && `${state.sort.startsWith('-') ? '-' : ''}${sorted.field.path}`;
      const paths = [first?.path ?? 'kind', ...columns.map((field) => field.path)];
      const [found, total] = await Promise.all([
        server.list(kind, { paths, sort, search: wanted, page: state.page, size: SIZE, signal }),
        wanted === undefined ? server.count(kind, signal) : undefined,
      ]);
      const called = await namesIn(found.rows, columns, signal);
      if (signal.aborted) return;
      show(found, total, called);
    } catch (error) {
      if (signal.aborted) return;
      amount.textContent = '';
      content.replaceChildren(trouble(page.failure(error), load));
    }
    content.removeAttribute('aria-busy');
  }

  function show(found, total, called) {
    const begin = state.page * SIZE;
    if (found.rows.length === 0) {
      amount.textContent = total?.count === 0 ? 'No records' : 'Nothing found';
      return content.replaceChildren(nothing(total));
    }
    amount.textContent = total === undefined ? `found ${begin + found.rows.length}${found.more ? ' or more' : ''}` : amountOf(total);
    rows.replaceChildren(...found.rows.map((row) => rowOf(row, called)));
    place.textContent = `${(begin + 1).toLocaleString('en')} – ${(begin + found.rows.length).toLocaleString('en')}`;
    back.disabled = state.page === 0;
    on.disabled = !found.more;
    pager.hidden = back.disabled && on.disabled;
    content.replaceChildren(h('div', { class: 'table' }, table), pager);
  }

  function nothing(total) {
    if (state.search !== '') {
      const clear = () => {
        search.value = '';
        search.focus();
        change({ search: '', page: 0 });
      };
      return h('div', { class: 'empty' }, h('p', {}, `No ${kind} has “${state.search}” in it.`), h('p', {}, h('button', { type: 'button', onclick: clear }, 'Show all')));
    }
    if (state.page > 0 && total?.count !== 0) {
      return h('div', { class: 'empty' }, h('p', {}, 'There are not so many records.'), h('p', {}, h('button', { type: 'button', onclick: () => change({ page: 0 }) }, 'To the first page')));
    }
    return h('div', { class: 'empty' }, h('p', {}, `There is no ${kind} yet.`), h('p', {}, h('a', { class: 'button', href: page.href([kind, 'new']) }, 'Make the first one')));
  }

  function rowOf({ ref, values: [title, ...values] }, called) {
    const href = page.href([kind, ref]);
    const link = (text) => h('a', { href }, text);
    const cells = columns.map((field, at) => {
      const value = values[at];
      const isTitle = field.name === first.name;
      const text = isTitle ? link(titleOf(kind, ref, title)) : (called.get(`${field.kind} ${value}`) ?? brief(field, value));
      return h(isTitle ? 'th' : 'td', { class: field.type, scope: isTitle ? 'row' : undefined, 'data-label': field.label, 'data-empty': text === '' }, text);
    });
    const whole = (event) => {
      // The whole row leads there, unless somebody marks text or clicks the link itself.
      if (event.target.closest('a') === null && String(getSelection()) === '') location.hash = href;
    };
    return h('tr', { onclick: whole }, cells, h('td', { class: 'ref', 'data-label': 'Reference' }, columns.some((field) => field.name === first?.name) ? ref : link(ref)));
  }

  return load();
}

/** What the records are called to which rows refer, by kind and reference. */
async function namesIn(rows, columns, signal) {
  const called = new Map();
  const asked = columns.map(async (field, at) => {
    const title = field.type === 'record' && Object.hasOwn(kinds, field.kind) ? fieldsOf(field.kind)[0] : undefined;
    if (title === undefined) return;
    const refs = new Set(rows.map(({ values }) => values[at + 1]).filter((value) => value instanceof Exact).map(String));
    for (const [ref, name] of await server.names(field.kind, title.path, [...refs], signal)) called.set(`${field.kind} ${ref}`, titleOf(field.kind, ref, name));
  });
  await Promise.all(asked);
  return called;
}

function amountOf({ count, more }) {
  const records = count === 1 ? 'record' : 'records';
  return `${count.toLocaleString('en')}${more ? ' or more' : ''} ${records}`;
}

function read(query, columns) {
  const page = Number(query.get('page') ?? 1);
  const sort = query.get('sort') ?? '';
  return {
    search: (query.get('search') ?? '').slice(0, SEARCH_LENGTH_MAX),
    sort: columns.some(({ name }) => sort === name || sort === `-${name}`) ? sort : '',
    page: Number.isSafeInteger(page) && page > 0 ? page - 1 : 0,
  };
}

function write({ search, sort, page }) {
  const query = new URLSearchParams();
  if (search !== '') query.set('search', search);
  if (sort !== '') query.set('sort', sort);
  if (page > 0) query.set('page', page + 1);
  return query;
}
