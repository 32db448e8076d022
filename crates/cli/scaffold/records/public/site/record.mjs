// One record: to look at, and to delete.
import { kinds } from '../kinds.mjs';
import { confirm } from './dialog.mjs';
import { h, longText, trouble, waiting } from './dom.mjs';
import { fieldsOf, shown, titleOf } from './fields.mjs';
import { Exact, stringify } from './json.mjs';
import * as server from './server.mjs';

/** Reads a record for `show`; undefined when the page has gone elsewhere, or when what stands in the record's way is shown already. */
export async function readShown(main, kind, ref, page, show) {
  main.replaceChildren(waiting('Reading the record'));
  let found;
  try {
    found = await server.read(kind, ref, page.signal);
  } catch (error) {
    if (!page.signal.aborted) {
      main.replaceChildren(heading(kind, ref, page), trouble(page.failure(error), () => show(main, kind, ref, page)));
    }
    return undefined;
  }
  if (page.signal.aborted) return undefined;
  if (found === undefined) main.replaceChildren(gone(kind, ref, page));
  return found;
}

/** Shows a record. */
export async function showRecord(main, kind, ref, page) {
  const found = await readShown(main, kind, ref, page, showRecord);
  if (found === undefined) return;
  const { data, tag } = found;
  const fields = fieldsOf(kind);
  const title = titleOf(kind, ref, data[fields[0]?.name]);
  page.title(title);
  const further = Object.keys(data).filter((name) => name !== 'kind' && !fields.some((field) => field.name === name));
  const list = h('dl', { class: 'record' });
  // The heading says the first one already.
  const told = data[fields[0]?.name] === title ? fields.slice(1) : fields;
  for (const field of told) list.append(h('dt', {}, field.label), h('dd', {}, isReference(field, data) ? link(field, data[field.name], page) : shown(field, data[field.name])));
  for (const name of further) list.append(h('dt', { class: 'further' }, name), h('dd', {}, shown({ type: 'json' }, data[name])));
  main.replaceChildren(
    heading(title, ref, page, kind, [
      h('a', { class: 'button primary', href: page.href([kind, ref, 'edit']) }, 'Edit'),
      h('button', { type: 'button', class: 'danger', onclick: () => erase(main, kind, ref, tag, title, page) }, 'Delete'),
    ]),
    list,
    h('details', {}, h('summary', {}, 'As JSON'), h('pre', {}, longText(stringify(data, 2)))),
  );
}

/** What stands above a record: the way back, its name, its reference, and what can be done with it. */
export function heading(title, ref, page, kind, actions = []) {
  return h(
    'header',
    { class: 'top' },
    h(
      'div',
      {},
      kind && h('p', { class: 'back' }, h('a', { href: page.href([kind]) }, `← ${kinds[kind].label ?? kind}`)),
      h('h1', { tabindex: -1 }, title),
      ref !== undefined && h('p', { class: 'amount' }, `${kind ?? 'Record'} ${ref}`, h('span', { class: 'hex', title: 'The reference in addresses below /json/' }, BigInt(ref).toString(16).padStart(16, '0'))),
    ),
    actions.length > 0 && h('div', { class: 'actions' }, actions),
  );
}

/** What is said of a record that is not there. */
export function gone(kind, ref, page) {
  return h(
    'div',
    {},
    heading(`There is no ${kind} ${ref}`, undefined, page, kind),
    h('div', { class: 'empty' }, h('p', {}, 'It may have been deleted, or the address is wrong.'), h('p', {}, h('a', { class: 'button', href: page.href([kind]) }, `All of ${kind}`))),
  );
}

function isReference(field, data) {
  return field.type === 'record' && data[field.name] instanceof Exact && Object.hasOwn(kinds, field.kind ?? '');
}

/** A link to another record, with its name once that is known. */
function link(field, { text: ref }, page) {
  const anchor = h('a', { href: page.href([field.kind, ref]) }, `${field.kind} ${ref}`);
  const title = fieldsOf(field.kind)[0];
  const named = title === undefined ? Promise.resolve(new Map()) : server.names(field.kind, title.path, [ref], page.signal);
  named.then(
    (names) => {
      if (names.has(ref)) anchor.textContent = titleOf(field.kind, ref, names.get(ref));
      else anchor.replaceWith(h('span', { class: 'nothing' }, `${field.kind} ${ref}, which is not there`));
    },
    // Without the name the reference stands there, which leads to the same place.
    () => {},
  );
  return anchor;
}

async function erase(main, kind, ref, tag, title, page) {
  const isSure = await confirm({ title: `Delete “${title}”?`, text: `${kind} ${ref} will be gone for good.`, yes: 'Delete', danger: true });
  if (!isSure) return;
  try {
    const done = await server.remove(kind, ref, tag);
    if (done === false) {
      page.say('It was not deleted: somebody has changed it since you opened it. Here it is as it is now.', true);
      await showRecord(main, kind, ref, page);
      page.focus();
      return;
    }
    page.say(done ? `${title} is deleted.` : 'Somebody else has deleted it already.');
    page.go([kind], { replaces: true });
  } catch (error) {
    const { message, hint } = page.failure(error);
    page.say(`It was not deleted. ${message} ${hint ?? ''}`, true);
  }
}
