// What records contain stays text, whatever it is, and keeps every digit.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Application } from './application.mjs';
import { Browser } from '../../../../tests/browser.mjs';

/** Texts that do something where they become markup, scripts, addresses or styles. */
const HOSTILE = [
  '<img src=x onerror="window.pwned=1">',
  '</script><script>window.pwned=1</script>',
  '"><svg onload=window.pwned=1>',
  "'-window.pwned=1-'",
  'javascript:window.pwned=1',
  '{{constructor.constructor("window.pwned=1")()}}',
  '</textarea><iframe srcdoc="<script>parent.pwned=1</script>">',
];

describe('the content of records', () => {
  let app;
  let browser;
  let tab;

  before(async () => {
    app = new Application();
    await app.serve();
    browser = new Browser('#kinds a');
    tab = await browser.tab();
  });
  after(async () => {
    await browser?.close();
    await app?.remove();
  });

  const harmless = async (where) => {
    assert.equal(await tab.run(() => window.pwned), undefined, where);
    assert.equal(await tab.run(() => document.querySelectorAll('main :is(img, svg, iframe, script, style, object)').length), 0, where);
    assert.deepEqual(tab.complaints, [], where);
  };

  test('is never more than text', async () => {
    for (const text of HOSTILE) {
      const author = await app.create('Person', { name: text });
      const data = { title: text, status: text, published: text, stars: text, text, author, [text]: { [text]: [text] } };
      const ref = await app.create('Article', data);
      await tab.open(`${app.url}/#/Article`);
      await tab.sees(text);
      await harmless('the list');
      await tab.run((ref) => (location.hash = `#/Article/${ref}`), ref);
      await tab.heading(text);
      assert.ok((await tab.run(() => document.title)).startsWith(text));
      await harmless('the record');
      await tab.click('button', 'Edit');
      await tab.until('the form', () => document.querySelector('form') !== null);
      await tab.type('Status', text);
      await harmless('the form');
      await tab.type('Text', `${text} more`);
      await app.ask('PATCH', `/v1/Article/${ref}`, { stars: `${text} changed` });
      await tab.click('button', 'Save');
      await tab.sees('Somebody else has changed this record');
      await harmless('the conflict');
      await tab.click('button', 'Put my changes on top');
      await tab.click('button', 'Save');
      await tab.sees(`${text} is saved.`);
      await harmless('the message');
      assert.deepEqual(await app.read('Article', ref), { kind: 'Article', ...data, text: `${text} more`, stars: `${text} changed` }, 'what is saved is what was there');
      await tab.click('button', 'Delete');
      await tab.sees(`Delete “${text}”?`);
      await harmless('the question');
      await tab.click('button', 'Delete');
      await tab.sees(`${text} is deleted.`);
      await tab.type('Find in Article', text);
      await tab.sees(`No Article has “${text}” in it.`);
      await harmless('the search');
    }
  });

  test('could not become code even if the page made markup of it', async () => {
    await tab.open(`${app.url}/`);
    const refused = await tab.run(() => {
      try {
        document.body.insertAdjacentHTML('beforeend', '<b>no</b>');
      } catch (error) {
        return error.name;
      }
      return 'nothing';
    });
    assert.equal(refused, 'TypeError');
    await tab.run(() => {
      const script = document.createElement('a');
      script.href = `${'java'}script:window.pwned=1`;
      document.body.append(script);
      script.click();
    });
    await tab.until('the policy to refuse a script', () => window.pwned === undefined);
    const headers = (await app.ask('GET', '/site/app.mjs').catch(() => fetch(`${app.url}/site/app.mjs`))).headers;
    assert.match(headers.get('content-security-policy'), /^default-src 'none'; script-src 'self';/);
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    tab.complaints.length = 0;
  });

  test('is refused when the page of another site sends it', async () => {
    const refused = await app.ask('PUT', '/v1/Person', { name: 'Foreign' }, { 'sec-fetch-site': 'cross-site' });
    assert.equal(refused.status, 403);
    assert.equal((await app.ask('PUT', '/v1/Person', { name: 'Own' }, { 'sec-fetch-site': 'same-origin' })).status, 201);
  });

  test('keeps all digits of numbers and references', async () => {
    const kinds = app.file('public/kinds.mjs');
    assert.match(kinds, /author: \{ type: 'record', kind: 'Person' \}/);
    const [person, article] = ['9007199254740993', '999999999999999998'];
    app.import([
      '{"path":["%Kind","Person"],"value":true}',
      '{"path":["%Kind","Article"],"value":true}',
      `{"path":["%Ref",${person}],"value":"Person"}`,
      `{"path":["Person",${person}],"document":{"kind":"Person","name":"Beyond doubles"}}`,
      `{"path":["%Ref",${article}],"value":"Article"}`,
      `{"path":["Article",${article}],"document":{"kind":"Article","title":"The last one","author":${person},"stars":0.1000000000000000055511151231257827,"amounts":[9007199254740993,1e999]}}`,
    ]);
    await tab.open(`${app.url}/#/Article?sort=title`);
    await tab.click('row', 'The last one');
    await tab.heading('The last one');
    assert.equal(await tab.run(() => location.hash), `#/Article/${article}`);
    await tab.sees('0de0b6b3a763fffe');
    await tab.sees('0.1000000000000000055511151231257827');
    await tab.sees('9007199254740993,');
    await tab.sees('1e999');
    await tab.click('link', 'Beyond doubles');
    await tab.heading('Beyond doubles');
    assert.equal(await tab.run(() => location.hash), `#/Person/${person}`);
    await tab.run((article) => (location.hash = `#/Article/${article}/edit`), article);
    await tab.type('Title', 'Still the last one');
    await tab.type('Further members, as JSON', '{"amounts":[9007199254740993,1e999],"more":1.50}');
    await tab.click('button', 'Save');
    await tab.heading('Still the last one');
    const stored = await app.ask('GET', `/v1/Article/${article}`);
    for (const exact of ['"amounts":[9007199254740993,1e999]', `"author":${person}`, '"more":1.50', '"stars":0.1000000000000000055511151231257827']) assert.ok(stored.text.includes(exact), `${exact}: ${stored.text}`);
    assert.deepEqual(tab.complaints, []);
  });

  test('of another type than its field is entered as JSON, and nothing is lost by saving', async () => {
    const odd = { title: ['not', 'a', 'text'], status: 5, published: 'yesterday', stars: '4', author: 'Ada', text: null, '': 'no name', 'a.b': { c: null } };
    const ref = await app.create('Article', odd);
    await tab.open(`${app.url}/#/Article/${ref}`);
    await tab.heading(`Article ${ref}`);
    await tab.click('button', 'Edit');
    await tab.until('the form', () => document.querySelector('form') !== null);
    await tab.run(() => {
      const field = [...document.querySelectorAll('textarea')].at(-1);
      field.value = field.value.replace('no name', 'a name');
    });
    await tab.click('button', 'Save');
    await tab.until('the record again', () => document.querySelector('dl') !== null);
    assert.deepEqual(await app.read('Article', ref), { kind: 'Article', ...odd, '': 'a name' });
    assert.deepEqual(tab.complaints, []);
  });

  test('that is large is shown in part, and whole when asked for', async () => {
    const text = 'water '.repeat(50_000);
    const ref = await app.create('Article', { title: 't'.repeat(100_000), text, list: Array.from({ length: 20_000 }, (_, at) => at) });
    await tab.open(`${app.url}/#/Article/${ref}`);
    await tab.click('button', 'Show the other 280,000 characters');
    await tab.until('all of it', (length) => [...document.querySelectorAll('dd')].some((element) => element.textContent.length >= length - 1), text.length);
    await tab.run(() => (location.hash = '#/Article'));
    await tab.until('the list', () => document.querySelector('tbody tr') !== null);
    assert.ok(await tab.run(() => document.querySelector('table').textContent.length < 5_000), 'the list shows beginnings');
    assert.deepEqual(tab.complaints, []);
  });
});
