// The page for everybody: on a phone, in the dark, by keyboard alone, and for a screen reader.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Application } from './application.mjs';
import { Browser, tooFaint } from '../../../../tests/browser.mjs';

describe('everybody', () => {
  let app;
  let browser;
  let tab;

  before(async () => {
    app = new Application();
    app.run(['store', 'import', 'seed.ndjson']);
    await app.serve();
    browser = new Browser('#kinds a');
  });
  after(async () => {
    await browser?.close();
    await app?.remove();
  });
  afterEach(() => assert.deepEqual(tab.complaints, [], 'the page reports no errors'));

  /** Shows each view in turn. */
  const views = async (look) => {
    for (const [hash, ready] of [
      ['#/Article', 'A quiet harbour'],
      ['#/Article?search=nothing+has+this', 'Show all'],
      ['#/Article/2', 'As JSON'],
      ['#/Article/2/edit', 'Cancel'],
      ['#/Article/99', 'It may have been deleted'],
      ['#/Person/new', 'Cancel'],
      ['#/Nothing', 'The address leads to no kind'],
    ]) {
      await tab.run((hash) => (location.hash = hash), hash);
      await tab.sees(ready);
      await look(hash);
    }
    await tab.run(() => (location.hash = '#/Article/2'));
    await tab.click('button', 'Delete');
    await tab.sees('will be gone for good');
    await look('the question');
    await tab.key('Escape');
    await tab.run(() => (location.hash = '#/Article/2/edit'));
    await tab.until('the form', () => document.querySelector('form') !== null);
    await tab.type('Title', '');
    await tab.type('Text', 'Mine');
    await tab.click('button', 'Save');
    await tab.sees('Title is needed.');
    await look('a wrong entry');
    await tab.type('Title', `Changed ${Math.random()}`);
    await app.ask('PATCH', '/v1/Article/2', { text: `Theirs ${Math.random()}` });
    await tab.click('button', 'Save');
    await tab.sees('Somebody else has changed this record');
    await look('a conflict');
    await tab.click('button', 'Put my changes on top');
    await tab.click('button', 'Save');
    await tab.sees('is saved.');
    await look('a message');
  };

  for (const dark of [false, true]) {
    test(`can read all text ${dark ? 'in the dark' : 'by day'}`, async () => {
      tab = await browser.tab({ dark });
      await tab.open(`${app.url}/`);
      await views(async (where) => {
        const { seen, faint } = await tab.run(tooFaint);
        assert.ok(seen > 4, `${where}: ${seen} texts`);
        assert.deepEqual(faint, [], where);
      });
      const paper = await tab.run(() => getComputedStyle(document.body).backgroundColor.match(/\d+/g).map(Number));
      assert.equal(paper[0] < 128, dark);
    });
  }

  test('sees whole pages on a phone, and can reach everything with a thumb', async () => {
    tab = await browser.tab({ width: 390, height: 844 });
    const long = await app.create('Article', { title: 'W'.repeat(300), text: 'x'.repeat(2_000), ['n'.repeat(200)]: ['y'.repeat(500)] });
    await tab.open(`${app.url}/`);
    await views(async (where) => {
      assert.deepEqual(await tab.run(() => [document.documentElement.scrollWidth, innerWidth]), [390, 390], where);
      const small = await tab.run(() =>
        [...document.querySelectorAll('main :is(button, a.button, input, textarea, select), #kinds a')]
          .filter((element) => element.checkVisibility() && !element.matches('thead *, [type=checkbox], .quiet'))
          .filter((element) => element.getBoundingClientRect().height < 36)
          .map((element) => element.outerHTML.slice(0, 100)),
      );
      assert.deepEqual(small, [], where);
    });
    for (const hash of ['#/Article?sort=-title', `#/Article/${long}`, `#/Article/${long}/edit`]) {
      await tab.run((hash) => (location.hash = hash), hash);
      await tab.until('it', () => document.querySelector('main [aria-busy], main .waiting') === null && document.querySelector('tbody tr, dl, form') !== null);
      assert.equal(await tab.run(() => document.documentElement.scrollWidth), 390, hash);
    }
    await tab.click('link', 'Person');
    await tab.click('row', 'Ada Marlow');
    await tab.heading('Ada Marlow');
    await app.ask('DELETE', `/v1/Article/${long}`);
  });

  test('is told by name what each thing is', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/`);
    await tab.send('Accessibility.enable');
    await views(async (where) => {
      const { nodes } = await tab.send('Accessibility.getFullAXTree');
      const role = (node) => node.role?.value;
      const controls = nodes.filter((node) => !node.ignored && ['button', 'link', 'textbox', 'searchbox', 'combobox', 'checkbox', 'Date', 'table', 'navigation', 'dialog', 'heading'].includes(role(node)));
      assert.ok(controls.length > 2, `${where}: ${controls.length}`);
      const nameless = controls.filter((node) => (node.name?.value ?? '').trim() === '').map((node) => role(node));
      assert.deepEqual(nameless, [], where);
      assert.equal(nodes.filter((node) => !node.ignored && role(node) === 'main').length + (where === 'the question' ? 1 : 0), 1, where);
    });
    await tab.run(() => (location.hash = '#/Article/2'));
    await tab.until('the record', () => document.querySelector('dl') !== null);
    assert.equal(await tab.run(() => document.querySelectorAll('h1').length), 1);
  });

  test('can do everything without a mouse', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Person`);
    await tab.sees('4 records');
    const tabTo = async (text) => {
      for (let presses = 0; presses < 60; presses += 1) {
        if (await tab.run((text) => (document.activeElement.innerText || document.activeElement.labels?.[0]?.firstChild.textContent || '').trim() === text, text)) return;
        await tab.key('Tab');
      }
      assert.fail(`60 times Tab does not lead to “${text}”`);
    };
    await tabTo('To the content');
    await tab.key('Enter');
    await tab.until('the content to have the focus', () => document.activeElement.matches('main'));
    assert.equal(await tab.run(() => location.hash), '#/Person', 'the address stays');
    await tabTo('New Person');
    await tab.key('Enter');
    await tab.heading('New Person');
    await tabTo('Name');
    await tab.send('Input.insertText', { text: 'By Keyboard' });
    await tabTo('Active');
    await tab.key(' ');
    await tabTo('Save');
    await tab.key('Enter');
    await tab.heading('By Keyboard');
    const ref = await tab.run(() => location.hash.split('/')[2]);
    assert.deepEqual(await app.read('Person', ref), { kind: 'Person', name: 'By Keyboard', active: true });
    assert.ok(await tab.run(() => document.activeElement.matches('h1')));
    await tabTo('Delete');
    assert.notEqual(await tab.run(() => getComputedStyle(document.activeElement).outlineStyle), 'none', 'where one is can be seen');
    await tab.key('Enter');
    await tab.sees('will be gone for good');
    await tab.key('Tab');
    await tab.key('Enter');
    await tab.sees('By Keyboard is deleted.');
    await tab.sees('4 records');
  });
});
