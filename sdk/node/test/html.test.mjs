import assert from 'node:assert/strict';
import test from 'node:test';
import { html, reply, router, unsafeHtml } from '../dist/index.js';
import { testing } from '../dist/testing.js';

test('values of a page are text, arrays their elements, and what is HTML stays', () => {
  const values = [1, [-0.5, null], undefined, false, true, 10n, { toString: () => '<o>' }];
  const page = html`<p title="${`&<>"'ü😀`}">${values}${html`<b>${'<'}</b>`}${unsafeHtml('<i>')}</p>`;
  assert.equal(page.text, '<p title="&amp;&lt;&gt;&quot;&#39;ü😀">1-0.5true10&lt;o&gt;<b>&lt;</b><i></p>');
  assert.equal(String(page), page.text);
});

test('an object with a text of its own is none', () => {
  assert.equal(html`${{ text: '<i>', toString: () => '<o>' }}`.text, '&lt;o&gt;');
});

test('a circle of arrays and a call without a template are errors', () => {
  const circle = [];
  circle.push(circle);
  assert.throws(() => html`${circle}`, /^RangeError: arrays of HTML are at most 64 in one another$/);
  assert.throws(() => html('<p>'), /^TypeError: html is called with a template/);
});

test('a page is answered as HTML, under another status too', async () => {
  const app = router();
  app.get('/', () => html`<p>${'a'}</p>`);
  app.get('/missing', () => reply(html`<p>none</p>`, { status: 404 }));
  const tested = testing(app);
  const page = await tested.get('/');
  assert.equal(page.headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal(await page.text(), '<p>a</p>');
  const missing = await tested.get('/missing');
  assert.equal(missing.status, 404);
  assert.equal(missing.headers.get('content-type'), 'text/html; charset=utf-8');
});
