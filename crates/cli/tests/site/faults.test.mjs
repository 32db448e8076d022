// What the page says when the server cannot do what it asks, and that nothing entered is lost by that.
import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import { Application } from './application.mjs';
import { Browser } from '../../../../tests/browser.mjs';

describe('when something goes wrong', () => {
  let app;
  let browser;
  let tab;

  before(() => {
    browser = new Browser('#kinds a');
  });
  beforeEach(async () => {
    app = new Application();
    tab = await browser.tab();
  });
  afterEach(async () => {
    await app.remove();
    assert.deepEqual(tab.complaints, [], 'the page reports no errors');
  });
  after(() => browser?.close());

  const alert = () => document.querySelector('[role=alert]')?.innerText;

  test('in the controller, the page says so and where to look, and what was entered is still there', async () => {
    const good = app.file('handlers/records.mjs');
    app.write('handlers/records.mjs', "export default () => { throw new Error('a secret of the controller'); };");
    await app.serve();
    await tab.open(`${app.url}/#/Person/new`);
    await tab.type('Name', 'Not lost');
    await tab.click('button', 'Save');
    await tab.sees('The server could not do this.');
    const told = await tab.run(alert);
    assert.match(told, /Its log says more under the request [0-9a-f]{16}\./);
    assert.doesNotMatch(told, /secret/);
    assert.equal(await tab.run(() => document.querySelector('form input').value), 'Not lost');
    await tab.run(() => (location.hash = '#/Person'));
    await tab.click('button', 'Leave');
    await tab.sees('There is no Person yet.');
    await tab.run(() => (location.hash = '#/Person/1'));
    await tab.sees('The server could not do this.');

    app.write('handlers/records.mjs', good);
    app.run(['reload']);
    await tab.click('button', 'Try again');
    await tab.heading('There is no Person 1');
  });

  test('and the controller refuses a record, the page says what it says', async () => {
    app.write(
      'handlers/records.mjs',
      `import { HttpError } from 'forebay';
import { rest } from 'forebay/records';
const refuse = ({ data }) => { throw new HttpError(Number(data.name), 'no <b>name</b> may be a number'); };
export default rest({ kinds: { Person: { read: true, create: refuse } } });`,
    );
    await app.serve();
    await tab.open(`${app.url}/#/Person/new`);
    for (const [status, words] of [
      [422, 'The server does not accept this.'],
      [403, 'You may not do this here.'],
      [409, 'Another record has this already.'],
      [413, 'The record is too large.'],
      [418, 'The server has refused this.'],
      [503, 'The server is busy. Try again in a moment.'],
    ]) {
      await tab.type('Name', String(status));
      await tab.click('button', 'Save');
      await tab.sees(words);
      if (status < 500) assert.match(await tab.run(alert), /The server says: no <b>name<\/b> may be a number\./);
    }
    await tab.run(() => (location.hash = '#/Article/new'));
    await tab.click('button', 'Leave');
    await tab.type('Title', 'Closed');
    await tab.click('button', 'Save');
    await tab.sees('There is nothing here.');
  });

  test('and the server is gone, the page says that, and goes on when it is back', async () => {
    await app.serve();
    const port = new URL(app.url).port;
    const ref = await app.create('Person', { name: 'Patient' });
    await tab.open(`${app.url}/#/Person/${ref}/edit`);
    await tab.type('Name', 'Very patient');
    await app.stop();
    await tab.click('button', 'Save');
    await tab.sees('The server cannot be reached.');
    assert.equal(await tab.run(() => document.querySelector('form input').value), 'Very patient');
    await app.serve(port);
    await tab.click('button', 'Save');
    await tab.heading('Very patient');
    assert.equal((await app.read('Person', ref)).name, 'Very patient');

    await app.stop();
    await tab.click('link', 'Article');
    await tab.sees('The server cannot be reached.');
    assert.equal(await tab.run(() => document.querySelector('.waiting')), null);
    await app.serve(port);
    await tab.click('button', 'Try again');
    await tab.sees('There is no Article yet.');
    await tab.run((ref) => (location.hash = `#/Person/${ref}`), ref);
    await tab.heading('Very patient');
    await app.stop();
    await tab.click('button', 'Delete');
    await tab.click('button', 'Delete');
    await tab.sees('It was not deleted. The server cannot be reached.');
    await app.serve(port);
    assert.equal((await app.read('Person', ref)).name, 'Very patient');
  });
});
