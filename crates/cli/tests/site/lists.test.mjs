// The list of a kind's records, in Chromium.
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, test } from 'node:test';
import { Application, records } from './application.mjs';
import { Browser } from '../../../../tests/browser.mjs';

const titles = () => [...document.querySelectorAll('tbody tr')].map((row) => row.querySelector('a').innerText);
const showsTitles = (...wanted) => [...document.querySelectorAll('tbody tr a')].map((link) => link.innerText).join() === wanted.join();

describe('the list', () => {
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

  test('the records that the template brings are there, by their names', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/`);
    await tab.sees('6 records');
    assert.deepEqual(await tab.run(titles), ['A quiet harbour', 'Notes on slow water', 'What the lock-keeper knows', 'Seven bridges, walked', 'A field guide to weirs', 'Rain, measured']);
    assert.deepEqual(
      await tab.run(() => [...document.querySelectorAll('tbody tr:first-child > *')].map((cell) => cell.innerText)),
      ['A quiet harbour', 'published', 'Ada Marlow', '2026-03-02', '4.5', '1'],
    );
    assert.equal(await tab.run(() => location.hash), '#/Article');
    assert.equal(await tab.run(() => document.querySelector('#kinds [aria-current=page]').innerText), 'Article');
    await tab.click('link', 'Person');
    await tab.heading('Person');
    await tab.sees('4 records');
    assert.equal(await tab.run(() => document.title), 'Person · Records');
  });

  test('a click on a heading sorts by that column, another one the other way round', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/`);
    await tab.click('button', 'Stars');
    await tab.until('the lowest first', showsTitles, 'A field guide to weirs', 'What the lock-keeper knows', 'Rain, measured', 'Seven bridges, walked', 'A quiet harbour', 'Notes on slow water');
    await tab.click('button', 'Stars');
    await tab.until('the highest first', showsTitles, 'Notes on slow water', 'A quiet harbour', 'Seven bridges, walked', 'Rain, measured', 'What the lock-keeper knows', 'A field guide to weirs');
    assert.equal(await tab.run(() => document.querySelector('[aria-sort]').getAttribute('aria-sort')), 'descending');
    assert.equal(await tab.run(() => location.hash), '#/Article?sort=-stars');
    await tab.back();
    await tab.until('the lowest first again', showsTitles, 'A field guide to weirs', 'What the lock-keeper knows', 'Rain, measured', 'Seven bridges, walked', 'A quiet harbour', 'Notes on slow water');
  });

  test('what is typed is found in any capitals, as text and not as a pattern', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article`);
    await tab.sees('6 records');
    await tab.key('/');
    await tab.send('Input.insertText', { text: 'BRIDGES' });
    await tab.until('the one that is found', showsTitles, 'Seven bridges, walked');
    await tab.sees('found 1');
    assert.equal(await tab.run(() => location.hash), '#/Article?search=BRIDGES');
    await tab.type('Find in Article', '4.5');
    await tab.until('the one with this number', showsTitles, 'A quiet harbour');
    for (const pattern of ['.*', 'a|b', '[', '(?i)', '\\', '{2}', "'", '"', '#', '~&-']) {
      await tab.type('Find in Article', pattern);
      await tab.sees(`No Article has “${pattern}” in it.`);
    }
    await tab.click('button', 'Show all');
    await tab.sees('6 records');
    assert.equal(await tab.run(() => document.activeElement.id), 'search');
  });

  test('an address with search, order and page shows just that', async () => {
    tab = await browser.tab();
    await tab.open(`${app.url}/#/Article?search=er&sort=-title`);
    await tab.until('what the address asks for', showsTitles, 'What the lock-keeper knows', 'Notes on slow water');
    assert.equal(await tab.run(() => document.querySelector('#search').value), 'er');
    await tab.run(() => (location.hash = '#/Article?page=9'));
    await tab.sees('There are not so many records.');
    await tab.click('button', 'To the first page');
    await tab.sees('6 records');
    for (const nonsense of ['#/Article?sort=nothing&page=-1', '#/Article?page=x&page=2', '#/Article?search=']) {
      await tab.run((hash) => (location.hash = hash), nonsense);
      await tab.until('all records', showsTitles, 'A quiet harbour', 'Notes on slow water', 'What the lock-keeper knows', 'Seven bridges, walked', 'A field guide to weirs', 'Rain, measured');
    }
    for (const nowhere of ['#/Nothing', '#/Article/x', '#/Article/99999999999999999999', '#/Article/1/2', '#/%E0%A4%A', '#/__proto__', '#/toString/1']) {
      await tab.run((hash) => (location.hash = hash), nowhere);
      await tab.heading('There is nothing here');
      await tab.click('link', 'Person');
      await tab.heading('Person');
    }
  });

  test('ten thousand records are shown a page at a time', async () => {
    const many = new Application('--kinds', 'Reading,Station');
    try {
      many.import(records('Reading', Array.from({ length: 10_000 }, (_, at) => ({ name: `Reading ${String(at).padStart(5, '0')}`, notes: 'x'.repeat(200) }))));
      await many.serve();
      tab = await browser.tab();
      await tab.open(`${many.url}/`);
      await tab.sees('10,000 or more records');
      assert.equal(await tab.run(() => document.querySelectorAll('tbody tr').length), 25);
      assert.equal(await tab.run(() => document.querySelector('.pager button').disabled), true);
      await tab.click('button', 'Next →');
      await tab.sees('26 – 50');
      assert.equal(await tab.run(() => location.hash), '#/Reading?page=2');
      await tab.click('button', 'Name');
      await tab.click('button', 'Name');
      await tab.until('the last one first', () => document.querySelector('tbody a').innerText === 'Reading 09999');
      await tab.run(() => (location.hash = '#/Reading?page=400'));
      await tab.sees('9,976 – 10,000');
      assert.equal(await tab.run(() => document.querySelector('.pager button:last-child').disabled), true);
      await tab.type('Find in Reading', '0777');
      await tab.sees('found 11');
      await tab.click('link', 'Station');
      await tab.sees('There is no Station yet.');
      await tab.sees('No records');
      await tab.click('link', 'Make the first one');
      await tab.heading('New Station');
    } finally {
      await many.remove();
    }
  });
});
