// Records made, edited and deleted in Chromium, alone and against others.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Application } from './application.mjs';
import { Browser } from '../../../../tests/browser.mjs';

describe('a record', () => {
  let app;
  let browser;
  let tab;

  before(async () => {
    app = new Application();
    await app.serve();
    browser = new Browser('#kinds a');
  });
  after(async () => {
    await browser?.close();
    await app?.remove();
  });
  afterEach(() => assert.deepEqual(tab.complaints, [], 'the page reports no errors'));

  const focused = () => document.activeElement.innerText;
  const hash = () => location.hash;
  const edit = async (ref) => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article/${ref}/edit`);
    await tab.until('the form', () => document.querySelector('form') !== null);
  };
  const error = (label) =>
    tab.run((label) => {
      const input = [...document.querySelectorAll('input, textarea')].find((input) => input.labels[0].firstChild.textContent === label);
      const told = (input.getAttribute('aria-describedby') ?? '').split(' ').map((id) => document.getElementById(id)?.innerText ?? '');
      return { invalid: input.getAttribute('aria-invalid'), told: told.join(' '), focused: document.activeElement === input };
    }, label);

  test('is made, looked at, edited and deleted', async () => {
    tab = await browser.tab();
    const person = await app.create('Person', { name: 'Edith Vale' });
    await tab.open(`${app.url}/#/Article`);
    await tab.sees('There is no Article yet.');
    await tab.click('button', 'New Article');
    await tab.heading('New Article');
    await tab.type('Title', 'On locks');
    await tab.run(() => {
      const select = document.querySelector('select');
      select.value = 'draft';
    });
    await tab.type('Author', String(person));
    await tab.sees('Edith Vale');
    await tab.run(() => (document.querySelector('input[type=date]').value = '2026-02-28'));
    await tab.type('Stars', '4.50');
    await tab.type('Text', 'First line\nSecond "line"\ttab');
    await tab.type('Further members, as JSON', '{"tags": ["a", "b"], "size": 1e3}');
    await tab.click('button', 'Save');
    await tab.heading('On locks');
    await tab.sees('On locks is saved.');
    const ref = await tab.run(() => location.hash.split('/')[2]);
    assert.deepEqual(await app.read('Article', ref), {
      kind: 'Article',
      title: 'On locks',
      status: 'draft',
      author: person,
      published: '2026-02-28',
      stars: 4.5,
      text: 'First line\nSecond "line"\ttab',
      tags: ['a', 'b'],
      size: 1000,
    });
    await tab.sees('Edith Vale');

    await tab.click('button', 'Edit');
    await tab.type('Title', 'On locks and weirs');
    await tab.type('Stars', '');
    await tab.click('button', 'Save');
    await tab.heading('On locks and weirs');
    const edited = await app.read('Article', ref);
    assert.deepEqual([edited.title, edited.stars, edited.size], ['On locks and weirs', undefined, 1000]);

    await tab.click('button', 'Delete');
    await tab.sees(`Article ${ref} will be gone for good.`);
    assert.equal(await tab.run(focused), 'Cancel', 'the harmless answer is the one at hand');
    await tab.key('Escape');
    await tab.until('the question to be gone', () => document.querySelector('dialog') === null);
    assert.equal(await tab.run(focused), 'Delete');
    assert.equal((await app.read('Article', ref)).title, 'On locks and weirs');
    await tab.click('button', 'Delete');
    await tab.click('button', 'Delete');
    await tab.sees('On locks and weirs is deleted.');
    await tab.sees('There is no Article yet.');
    assert.equal((await app.ask('GET', `/v1/Article/${ref}`)).status, 404);
    await tab.run((ref) => (location.hash = `#/Article/${ref}`), ref);
    await tab.heading(`There is no Article ${ref}`);
  });

  test('has an address, and the way back leads through all of them', async () => {
    const ref = await app.create('Person', { name: 'Way Back' });
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Person/${ref}`);
    await tab.heading('Way Back');
    assert.equal(await tab.run(() => document.activeElement.tagName), 'BODY', 'a page that is opened does not move the focus');
    await tab.click('link', '← Person');
    await tab.heading('Person');
    await tab.until('the heading of a new page to have the focus', () => document.activeElement.matches('h1') && document.activeElement.innerText === 'Person');
    await tab.click('row', 'Way Back');
    await tab.heading('Way Back');
    await tab.click('button', 'Edit');
    await tab.until('the form', () => document.querySelector('form') !== null);
    assert.equal(await tab.run(hash), `#/Person/${ref}/edit`);
    await tab.back();
    await tab.until('the record again', (at) => location.hash === at && document.querySelector('dl') !== null, `#/Person/${ref}`);
    await tab.back();
    await tab.until('the list again', () => location.hash === '#/Person' && document.querySelector('tbody tr') !== null);
    await tab.back();
    await tab.heading('Way Back');
  });

  test('is not saved with what no field can be, and each field says so', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article/new`);
    await tab.type('Stars', 'many');
    await tab.click('button', 'Save');
    await tab.sees('Title is needed.');
    assert.deepEqual(await error('Title'), { invalid: 'true', told: 'Title is needed.', focused: true });
    assert.equal((await error('Stars')).told, 'A number is expected, such as 12 or -3.5.');
    await tab.type('Title', 'Right');
    for (const wrong of ['01', '1.', '.5', 'NaN', '0x10', '1,5', '--1']) {
      await tab.type('Stars', wrong);
      await tab.click('button', 'Save');
      assert.equal((await error('Stars')).focused, true, wrong);
    }
    await tab.type('Stars', ' -12.5e-3 ');
    for (const wrong of ['x', '-1', '1.5', '18446744073709551616', '1n']) {
      await tab.type('Author', wrong);
      await tab.click('button', 'Save');
      assert.equal((await error('Author')).told.trim(), 'A reference is expected: the number of a record.', wrong);
    }
    await tab.type('Author', '');
    for (const [json, told] of [
      ['{"a": }', 'a value is expected, not "}", in line 1, column 7'],
      ['{\n  "a": 1,\n  b: 2\n}', 'a member\'s name in double quotes is expected, not "b", in line 3, column 3'],
      ['{"a": 1', '`,` or `}` is expected; the text ends, in line 1, column 8'],
      ['[1]', 'A JSON object is expected, such as {"colour": "blue"}.'],
      ['"text"', 'A JSON object is expected, such as {"colour": "blue"}.'],
      ['12', 'A JSON object is expected, such as {"colour": "blue"}.'],
      ['{"title": 1}', '“title” does not belong here: it has a field of its own.'],
      ['{"kind": "Person"}', '“kind” does not belong here: the kind of a record is settled.'],
    ]) {
      await tab.type('Further members, as JSON', json);
      await tab.click('button', 'Save');
      assert.deepEqual(await error('Further members, as JSON'), { invalid: 'true', told, focused: true }, json);
    }
    assert.equal((await app.ask('GET', '/v1/Article')).json.results.length, 0, 'nothing of this was saved');
    await tab.type('Further members, as JSON', '{"__proto__": {"a": 1}, "constructor": null}');
    await tab.click('button', 'Save');
    await tab.heading('Right');
    const stored = await app.ask('GET', '/v1/Article');
    assert.match(stored.text, /"__proto__":\{"a":1\},"constructor":null,"kind":"Article","stars":-12\.5e-3,"title":"Right"/);
    await app.ask('DELETE', '/v1/Article');
  });

  test('is made once, however often one presses the button', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article/new`);
    await tab.type('Title', 'Once');
    await tab.run(() => {
      const form = document.querySelector('form');
      for (let at = 0; at < 5; at += 1) form.requestSubmit();
    });
    await tab.heading('Once');
    assert.equal((await app.ask('GET', '/v1/Article')).json.results.length, 1);
    await app.ask('DELETE', '/v1/Article');
  });

  test('is not overwritten when somebody else was quicker, until one has seen what they did', async () => {
    const ref = await app.create('Article', { title: 'Old title', stars: 1, text: 'Old text', colour: 'red' });
    await edit(ref);
    await tab.type('Title', 'My title');
    await tab.type('Text', 'My text');
    await app.ask('PATCH', `/v1/Article/${ref}`, { text: 'Their text', stars: 2, colour: 'blue' });
    await tab.click('button', 'Save');
    await tab.sees('Somebody else has changed this record');
    assert.equal(await tab.run(focused), 'Somebody else has changed this record');
    assert.deepEqual(await app.read('Article', ref), { kind: 'Article', title: 'Old title', stars: 2, text: 'Their text', colour: 'blue' });
    const rows = () => [...document.querySelectorAll('.conflict tbody tr')].map((row) => [...row.children].map((cell) => `${cell.innerText}${cell.matches('.changed') ? ' *' : ''}`));
    assert.deepEqual(await tab.run(rows), [
      ['Title', 'Old title', 'My title *'],
      ['Stars', '2 *', '1'],
      ['Text', 'Their text *', 'My text *'],
      ['colour', 'blue *', 'red'],
    ]);

    await tab.click('button', 'Put my changes on top');
    await tab.sees('Your changes now stand on what is stored.');
    assert.equal((await app.read('Article', ref)).title, 'Old title', 'nothing is saved by looking');
    await app.ask('PATCH', `/v1/Article/${ref}`, { stars: 3 });
    await tab.click('button', 'Save');
    await tab.until('the conflict with what came in between', () => document.querySelector('.conflict')?.innerText.includes('Stars'));
    assert.equal((await tab.run(rows)).find(([name]) => name === 'Stars').join(), 'Stars,3 *,2');
    await tab.click('button', 'Put my changes on top');
    await tab.click('button', 'Save');
    await tab.heading('My title');
    assert.deepEqual(await app.read('Article', ref), { kind: 'Article', title: 'My title', stars: 3, text: 'My text', colour: 'blue' });
  });

  test('can be kept whole, or given up, against somebody else', async () => {
    const ref = await app.create('Article', { title: 'Old', stars: 1 });
    const clash = async (mine, theirs) => {
      await edit(ref);
      await tab.type('Title', mine);
      await app.ask('PATCH', `/v1/Article/${ref}`, theirs);
      await tab.click('button', 'Save');
      await tab.sees('Somebody else has changed this record');
    };
    await clash('Mine', { stars: 2 });
    await tab.click('button', 'Keep all of mine');
    await tab.click('button', 'Save');
    await tab.heading('Mine');
    assert.deepEqual(await app.read('Article', ref), { kind: 'Article', title: 'Mine', stars: 1 });
    await clash('Given up', { stars: 5 });
    await tab.click('button', 'Take what is stored');
    await tab.until('what is stored in the form', () => document.querySelector('form input').value === 'Mine');
    await tab.click('button', 'Cancel');
    await tab.heading('Mine');
    assert.deepEqual(await app.read('Article', ref), { kind: 'Article', title: 'Mine', stars: 5 });
  });

  test('that somebody else has deleted is not made again by itself, and not lost either', async () => {
    const ref = await app.create('Article', { title: 'Soon gone' });
    await edit(ref);
    await tab.type('Title', 'Not lost');
    await app.ask('DELETE', `/v1/Article/${ref}`);
    await tab.click('button', 'Save');
    await tab.sees('Somebody else has deleted this record');
    await tab.click('button', 'Save it as a new record');
    await tab.heading('Not lost');
    const made = await tab.run(() => Number(location.hash.split('/')[2]));
    assert.notEqual(made, ref);
    assert.equal((await app.read('Article', made)).title, 'Not lost');
  });

  test('that somebody else has changed is not deleted before one has seen it', async () => {
    const ref = await app.create('Article', { title: 'Harmless' });
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article/${ref}`);
    await tab.heading('Harmless');
    await app.ask('PATCH', `/v1/Article/${ref}`, { title: 'Important by now' });
    await tab.click('button', 'Delete');
    await tab.click('button', 'Delete');
    await tab.heading('Important by now');
    await tab.sees('It was not deleted: somebody has changed it since you opened it.');
    assert.equal((await app.read('Article', ref)).title, 'Important by now');
    await app.ask('DELETE', `/v1/Article/${ref}`);
    await tab.click('button', 'Delete');
    await tab.click('button', 'Delete');
    await tab.sees('Somebody else has deleted it already.');
    await tab.heading('Article');
  });

  test('that is half entered is not lost by a wrong click', async () => {
    const ref = await app.create('Article', { title: 'Half' });
    await edit(ref);
    await tab.click('link', 'Person');
    await tab.heading('Person');
    assert.equal(await tab.run(() => document.querySelector('dialog')), null, 'nothing was entered, so nothing is asked');
    await tab.back();
    await tab.until('the form', () => document.querySelector('form') !== null);
    await tab.type('Title', 'Half entered');
    await tab.click('link', 'Person');
    await tab.sees('What you have entered will be lost.');
    await tab.run(() => (location.hash = '#/Article'));
    await tab.until('the address of the form', (at) => location.hash === at, `#/Article/${ref}/edit`);
    assert.equal(await tab.run(() => document.querySelectorAll('dialog').length), 1, 'it is asked once');
    await tab.click('button', 'Go on editing');
    await tab.until('the question to be gone', () => document.querySelector('dialog') === null);
    assert.equal(await tab.run(() => document.querySelector('form input').value), 'Half entered');
    assert.equal(await tab.run(hash), `#/Article/${ref}/edit`);
    await tab.click('link', 'Person');
    await tab.click('button', 'Leave');
    await tab.heading('Person');
    assert.equal((await app.read('Article', ref)).title, 'Half');
  });
});
