// A record to enter: a new one, or one that is there.
import { h, trouble } from './dom.mjs';
import { entry, fieldsOf, isReference, shown, titleOf } from './fields.mjs';
import { Exact, same } from './json.mjs';
import { heading, readShown } from './record.mjs';
import * as server from './server.mjs';
import { kinds } from '../kinds.mjs';

/** Records that are offered for a reference. */
const OFFERED = 100;

/** Shows the form of a new record. */
export function showNew(main, kind, page) {
  const form = new Form(kind, Object.create(null), page);
  page.title(`New ${kind}`);
  main.replaceChildren(heading(`New ${kind}`, undefined, page, kind), form.element);
  form.onsave = async (data) => {
    const ref = await server.create(kind, data);
    page.say(`${titleOf(kind, ref, data[form.first])} is saved.`);
    page.go([kind, ref], { replaces: true });
  };
  form.begin(page.href([kind]));
}

/** Shows a record's form. */
export async function showEdit(main, kind, ref, page) {
  const found = await readShown(main, kind, ref, page, showEdit);
  if (found === undefined) return;
  let { data: opened, tag } = found;
  const form = new Form(kind, opened, page);
  const title = titleOf(kind, ref, opened[form.first]);
  page.title(`Edit ${title}`);
  main.replaceChildren(heading(title, ref, page, kind), form.element);
  form.onsave = async (mine) => {
    const done = await server.replace(kind, ref, mine, tag);
    if (done) {
      page.say(`${titleOf(kind, ref, mine[form.first])} is saved.`);
      page.go([kind, ref], { replaces: true });
      return;
    }
    const theirs = done === false ? await server.read(kind, ref, page.signal) : undefined;
    form.tell(theirs === undefined ? deleted() : conflict(mine, theirs));
  };
  form.begin(page.href([kind, ref]));

  /** Somebody else was quicker: both versions, and whose shall stand. */
  function conflict(mine, theirs) {
    const adopt = (data) => {
      ({ tag } = theirs);
      opened = theirs.data;
      form.fill(data, opened);
    };
    const fields = fieldsOf(kind);
    const names = [...new Set([...fields.map(({ name }) => name), ...Object.keys(theirs.data), ...Object.keys(mine)])];
    const different = names.filter((name) => name !== 'kind' && !same(mine[name], theirs.data[name]));
    const rows = different.map((name) => {
      const field = fields.find((field) => field.name === name) ?? { name, label: name, type: 'json' };
      const whose = same(mine[name], opened[name]) ? 'theirs' : same(theirs.data[name], opened[name]) ? 'mine' : 'both';
      const cell = (value, label, isChange) => h('td', { 'data-label': label, class: isChange ? 'changed' : undefined }, shown(field, value));
      return h('tr', {}, h('th', { scope: 'row' }, field.label), cell(theirs.data[name], 'Stored now', whose !== 'mine'), cell(mine[name], 'Yours', whose !== 'theirs'));
    });
    const merged = Object.assign(Object.create(null), theirs.data);
    for (const name of new Set([...Object.keys(mine), ...Object.keys(opened)])) {
      if (same(mine[name], opened[name])) continue;
      if (mine[name] === undefined) delete merged[name];
      else merged[name] = mine[name];
    }
    const leave = (data, said) => () => {
      adopt(data);
      page.say(said);
    };
    return h(
      'section',
      { class: 'conflict', role: 'alert', 'aria-labelledby': 'conflict' },
      h('h2', { id: 'conflict', tabindex: -1 }, 'Somebody else has changed this record'),
      h('p', {}, rows.length === 0 ? 'What is stored by now is what you have entered.' : 'It is not as it was when you opened it, so nothing was saved. This is where the two differ; changes are marked.'),
      rows.length > 0 &&
        h('div', { class: 'table' }, h('table', { 'aria-labelledby': 'conflict' }, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Field'), h('th', { scope: 'col' }, 'Stored now'), h('th', { scope: 'col' }, 'Yours'))), h('tbody', {}, rows))),
      h(
        'div',
        { class: 'actions' },
        h('button', { type: 'button', class: 'primary', onclick: leave(merged, 'Your changes now stand on what is stored. Save when it is right.') }, 'Put my changes on top'),
        h('button', { type: 'button', onclick: leave(mine, 'Saving now replaces what is stored by yours.') }, 'Keep all of mine'),
        h('button', { type: 'button', onclick: leave(theirs.data, 'This is what is stored now.') }, 'Take what is stored'),
      ),
    );
  }

  function deleted() {
    const again = async () => {
      try {
        const data = form.read();
        if (data === undefined) return;
        const made = await server.create(kind, data);
        form.settle();
        page.say('Saved as a new record.');
        page.go([kind, made], { replaces: true });
      } catch (error) {
        form.tell(trouble(page.failure(error)));
      }
    };
    return h(
      'section',
      { class: 'conflict', role: 'alert', 'aria-labelledby': 'conflict' },
      h('h2', { id: 'conflict', tabindex: -1 }, 'Somebody else has deleted this record'),
      h('p', {}, 'Nothing was saved. What you have entered is still below.'),
      h('div', { class: 'actions' }, h('button', { type: 'button', class: 'primary', onclick: again }, 'Save it as a new record')),
    );
  }
}

/** The entries of a kind's fields, and of whatever else a record has, as JSON. */
class Form {
  /** What is done with what was entered; it may throw what then is shown. */
  onsave = async () => {};
  #kind;
  #page;
  #fields;
  #entries = [];
  #opened;
  #before;
  #notes = h('div', { class: 'notes' });
  #body = h('div', { class: 'fields' });
  #save = h('button', { type: 'submit', class: 'primary' }, 'Save');
  #cancel = h('a', { class: 'button' }, 'Cancel');

  constructor(kind, data, page) {
    this.#kind = kind;
    this.#page = page;
    this.#fields = fieldsOf(kind);
    this.first = this.#fields[0]?.name;
    this.element = h('form', { novalidate: true, onsubmit: (event) => this.#submit(event) }, this.#notes, this.#body, h('div', { class: 'actions end' }, this.#save, this.#cancel));
    this.fill(data, data);
  }

  /** Shows entries for `data`; what counts as entered by the user is what differs from `opened`. */
  fill(data, opened) {
    this.#opened = opened;
    const isNew = Object.keys(opened).length === 0;
    const own = this.#fields.map((field) => this.#entry({ ...field, isNew }, data[field.name]));
    const further = Object.create(null);
    for (const name of Object.keys(data)) {
      if (name !== 'kind' && !this.#fields.some((field) => field.name === name)) further[name] = data[name];
    }
    const label = own.length === 0 ? 'The record, as JSON' : 'Further members, as JSON';
    const rest = this.#entry({ name: '', label, type: 'json' }, Object.keys(further).length === 0 ? undefined : further);
    this.#entries = [...own, rest];
    this.#body.replaceChildren(...this.#entries.map(({ row }) => row));
    this.#notes.replaceChildren();
    this.#before = same(data, opened) ? this.#texts() : '';
  }

  /** Begins to take entries; leaving leads to `cancel`. */
  begin(cancel) {
    this.#cancel.setAttribute('href', cancel);
    this.#page.guard(() => this.#texts() !== this.#before);
  }

  /** Nothing is lost by leaving now. */
  settle() {
    this.#before = this.#texts();
    this.#page.guard(undefined);
  }

  /** Shows a message above the entries. */
  tell(message) {
    this.#notes.replaceChildren(message);
    const heading = message.querySelector('h2') ?? this.#save;
    heading.focus();
    message.scrollIntoView({ block: 'nearest' });
  }

  /** The record that was entered; undefined, and told, when something is wrong. */
  read() {
    const data = Object.create(null);
    const wrong = [];
    for (const { field, read, fail } of this.#entries) {
      try {
        const value = read();
        fail(undefined);
        if (field.name !== '') {
          if (value !== undefined) data[field.name] = value;
          continue;
        }
        if (value !== undefined) this.#addFurther(data, value);
      } catch (error) {
        fail(error.message);
        wrong.push(this.#entries.find((entry) => entry.field === field));
      }
    }
    if (wrong.length > 0) {
      wrong[0].input.focus();
      return undefined;
    }
    if (this.#opened.kind !== undefined) data.kind = this.#opened.kind;
    return data;
  }

  #addFurther(data, value) {
    if (value === null || typeof value !== 'object' || Array.isArray(value) || value instanceof Exact) {
      throw new Error('A JSON object is expected, such as {"colour": "blue"}.');
    }
    for (const name of Object.keys(value)) {
      if (name === 'kind' || this.#fields.some((field) => field.name === name)) throw new Error(`“${name}” does not belong here: ${name === 'kind' ? 'the kind of a record is settled' : 'it has a field of its own'}.`);
      data[name] = value[name];
    }
  }

  async #submit(event) {
    event.preventDefault();
    if (this.#save.disabled) return;
    const data = this.read();
    if (data === undefined) return;
    const entered = this.#before;
    this.#notes.replaceChildren();
    this.#save.disabled = true;
    this.#save.textContent = 'Saving …';
    try {
      this.settle();
      await this.onsave(data);
    } catch (error) {
      this.tell(trouble(this.#page.failure(error)));
    } finally {
      this.#save.disabled = false;
      this.#save.textContent = 'Save';
      // Still here: what was entered is not saved.
      if (this.element.isConnected) {
        this.#before = entered;
        this.#page.guard(() => this.#texts() !== this.#before);
      }
    }
  }

  #texts() {
    return JSON.stringify(this.#entries.map(({ text }) => text()));
  }

  #entry(field, value) {
    const id = `field-${field.name === '' ? '' : this.#fields.findIndex(({ name }) => name === field.name)}`;
    const { input, type, hint, text, read } = entry(field, id, value);
    const error = h('p', { class: 'error', id: `${id}-error` });
    const about = hint && h('p', { class: 'hint', id: `${id}-hint` }, hint);
    const describe = (message) => {
      error.textContent = message ?? '';
      if (message === undefined) input.removeAttribute('aria-invalid');
      else input.setAttribute('aria-invalid', 'true');
      const by = [about && `${id}-hint`, message && `${id}-error`].filter(Boolean).join(' ');
      if (by === '') input.removeAttribute('aria-describedby');
      else input.setAttribute('aria-describedby', by);
    };
    describe(undefined);
    // What is wrong with JSON is told as soon as one leaves it, with its place.
    if (type === 'json') {
      input.addEventListener('change', () => {
        try {
          read();
          describe(undefined);
        } catch (problem) {
          describe(problem.message);
        }
      });
    }
    const offered = type === 'record' && Object.hasOwn(kinds, field.kind ?? '') ? this.#offer(input, id, field.kind) : undefined;
    const label = h('label', { for: id }, field.label, field.required ? h('span', { class: 'needed' }, ' needed') : '');
    const row = h('div', { class: `field ${type}` }, type === 'boolean' ? [input, label] : [label, input], offered, about, error);
    return { field, input, text, read, fail: describe, row };
  }

  /** Offers records of a kind by their names, and says which one is chosen. */
  #offer(input, id, kind) {
    const { signal } = this.#page;
    const list = h('datalist', { id: `${id}-offered` });
    const chosen = h('output', { class: 'hint', for: id });
    input.setAttribute('list', list.id);
    const title = fieldsOf(kind)[0];
    if (title === undefined) return list;
    let asked;
    const name = async () => {
      const ref = (asked = input.value.trim());
      if (!isReference(ref)) {
        chosen.textContent = `The number of a record of ${kind}.`;
        return;
      }
      // Without the name the reference can be entered all the same.
      const names = await server.names(kind, title.path, [ref], signal).catch(() => undefined);
      if (asked !== ref || names === undefined) return;
      chosen.textContent = names.has(ref) ? titleOf(kind, ref, names.get(ref)) : `There is no ${kind} ${ref}.`;
    };
    input.addEventListener('input', name);
    name();
    server.list(kind, { paths: [title.path], sort: title.path, page: 0, size: OFFERED, signal }).then(
      ({ rows }) => list.append(...rows.map(({ ref, values }) => h('option', { value: ref }, titleOf(kind, ref, values[0])))),
      () => {},
    );
    return [list, chosen];
  }
}
