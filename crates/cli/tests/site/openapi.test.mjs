// The page that a route with `openapi` is for browsers.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { after, afterEach, before, describe, test } from 'node:test';
import { Application } from './application.mjs';
import { Browser, tooFaint } from '../../../../tests/browser.mjs';

const CONFIG = `
[openapi]
title = "Shop"
version = "1.4.0"
description = """
Orders and what belongs to them.

- Prices are in \`EUR\`.
- Times are in UTC."""
[server]
policy = "site"
[policy.site]
rate_limits = "100000/1m"
headers = { content-security-policy = "default-src 'self'; object-src 'none'" }
[auth.customers]
tokens.ada.token = "TOKEN"
[script.shop]
handler = "shop.mjs"
[[route]]
path = "/orders/:id"
methods = ["GET"]
script = "shop"
doc = { summary = "Reads an order", tags = ["orders"] }
[[route]]
path = "/orders"
methods = ["POST"]
script = "shop"
auth = "customers"
scopes = "order"
body_schema = "order.json"
doc = { summary = "Places an order", description = "The price is that of the \`moment\`.", tags = ["orders"] }
[[route]]
path = "/any/*"
script = "shop"
doc = { summary = "Whatever the shop answers", tags = ["others"] }
[[route]]
path = "/</script><img src=x onerror=alert(1)>"
methods = ["GET"]
respond = { text = "x" }
doc = { summary = "</script><script>alert(1)</script>", description = "<img src=x onerror=alert(1)>", tags = ["<b>markup</b>"] }
[[route]]
path = "/files/*"
files = "."
[[route]]
path = "/docs"
openapi = {}
`;
const ORDER = {
  type: 'object',
  required: ['customer', 'parts'],
  properties: {
    customer: { type: 'string', format: 'email', description: 'Whoever pays' },
    express: { type: 'boolean', default: false },
    parts: { type: 'array', minItems: 1, items: { $ref: '#/$defs/part' } },
  },
  $defs: { part: { type: 'object', required: ['name'], properties: { name: { enum: ["it's", 'nut'] }, parts: { type: 'array', items: { $ref: '#/$defs/part' } } } } },
};

/** Writes a picture if somebody wants to look at it. */
async function picture(tab, name) {
  const folder = process.env.FOREBAY_PICTURES;
  if (folder) writeFileSync(`${folder}/${name}.png`, await tab.picture());
}

describe('the page of a document', () => {
  let app;
  let browser;
  let tab;

  before(async () => {
    process.env.TOKEN = 'sesame';
    app = new Application();
    app.write('forebay.toml', CONFIG);
    app.write('shop.mjs', 'export default () => "x";');
    app.write('order.json', JSON.stringify(ORDER));
    await app.serve();
    browser = new Browser();
  });
  after(async () => {
    await browser?.close();
    await app?.remove();
  });
  afterEach(() => assert.deepEqual(tab.complaints, []));

  async function open(options, hash = '') {
    tab = await browser.tab(options);
    await tab.send('Page.navigate', { url: `${app.url}/docs${hash}` });
    await tab.until('the operations', () => document.querySelector('.operation') !== null);
    return tab;
  }

  test('shows operations by tags, and what they take and answer', async () => {
    await open();
    await tab.heading('Shop 1.4.0');
    const groups = await tab.run(() => [...document.querySelectorAll('h2')].map((heading) => heading.innerText));
    assert.deepEqual(groups, ['<b>markup</b>', 'others', 'orders', 'Other']);
    assert.equal(await tab.run(() => document.querySelector('#about ul').innerText), 'Prices are in EUR.\nTimes are in UTC.');
    await tab.run(() => document.getElementById('postOrders').querySelector('summary').click());
    await tab.sees('The price is that of the moment.');
    const text = await tab.run(() => document.getElementById('postOrders').innerText);
    for (const part of ['customers bearer token, scopes order', 'At most 1MiB', 'customer*string (email)', 'Whoever pays', 'default false', '422', 'The request is understood']) assert.ok(text.replaceAll('\n', '').includes(part.replaceAll('\n', '')), `${part}: ${text}`);
    await picture(tab, 'wide-light');
  });

  test('schemas open as far as one likes, also those that contain themselves', async () => {
    await open({}, '#postOrders');
    for (let depth = 1; depth <= 4; depth += 1) {
      const opened = await tab.until('a branch of parts', (depth) => {
        const branches = [...document.querySelectorAll('#postOrders .branch')].filter((branch) => branch.querySelector('summary').innerText.startsWith('parts') || branch.querySelector('summary').innerText.startsWith('each'));
        branches.forEach((branch) => { branch.open = true; });
        return branches.length > depth;
      }, depth);
      assert.ok(opened);
    }
    await tab.sees('one of "it\'s", "nut"');
  });

  test('an example can be run by a shell, and copied', async () => {
    await open({}, '#postOrders');
    const text = await tab.until('the example', () => document.querySelector('#postOrders pre')?.innerText);
    const expected = `curl -X POST '${app.url}/orders' \\
  -H 'Authorization: Bearer TOKEN' \\
  -H 'Content-Type: application/json' \\
  -d '{
  "customer": "ada@example.org",
  "parts": [
    {
      "name": "it'\\''s"
    }
  ]
}'`;
    assert.equal(text, expected);
    await tab.click('button', 'Copy');
    await tab.until('the copy', () => ['Copied', 'Selected'].includes(document.querySelector('#postOrders button').innerText));
    await tab.run(() => document.getElementById('getOrdersById').querySelector('summary').click());
    assert.equal(await tab.until('the other', () => document.querySelector('#getOrdersById pre')?.innerText), `curl '${app.url}/orders/ID'`);
  });

  test('the filter and the arrow keys lead to an operation, and its address to it again', async () => {
    await open();
    await tab.key('/');
    await tab.send('Input.insertText', { text: 'ORDER post' });
    await tab.until('one operation', () => document.querySelector('output').innerText === '1 of 5');
    const focused = () => tab.run(() => document.activeElement.innerText.split('\n')[0] || document.activeElement.tagName);
    await tab.key('ArrowDown');
    assert.equal(await focused(), 'POST');
    await tab.key('ArrowUp');
    assert.equal(await focused(), 'INPUT');
    await tab.key('ArrowDown');
    await tab.key('Enter');
    await tab.until('its address', () => document.getElementById('postOrders').open && location.hash === '#postOrders');
    await open({}, '#postOrders');
    await tab.sees('Places an order');
    await tab.until('it to be open', () => document.getElementById('postOrders').open);
    assert.equal(await tab.run(() => document.activeElement.tagName), 'BODY');
  });

  for (const dark of [false, true]) {
    for (const width of [1280, 360]) {
      test(`it can be read ${dark ? 'in the dark' : 'in the light'} at ${width} pixels`, async () => {
        await open({ dark, width, height: 900 }, '#postOrders');
        await tab.run(() => document.querySelectorAll('.operation').forEach((operation) => { operation.open = true; }));
        await tab.until('all contents', () => document.querySelectorAll('.operation pre').length === 5);
        await tab.run(() => document.querySelectorAll('.branch').forEach((branch) => { branch.open = true; }));
        const { seen, faint } = await tab.run(tooFaint);
        assert.ok(seen > 100, String(seen));
        assert.deepEqual(faint, []);
        assert.equal(await tab.run(() => document.documentElement.scrollWidth - innerWidth), 0);
        await tab.run(() => document.querySelectorAll('.operation:not(#postOrders)').forEach((operation) => { operation.open = false; }));
        await tab.run(() => scrollTo(0, 0));
        await picture(tab, `${dark ? 'dark' : 'light'}-${width}`);
      });
    }
  }

  test('markup in paths, tags and texts stays text', async () => {
    await open();
    await tab.sees('</script><script>alert(1)</script>');
    await tab.run(() => document.querySelectorAll('.operation').forEach((operation) => { operation.open = true; }));
    await tab.sees('<img src=x onerror=alert(1)>');
    assert.equal(await tab.run(() => document.querySelectorAll('main img, main script, main b:not([title])').length), 0);
  });

  test('ten thousand routes are filtered as they are typed', async () => {
    const many = new Application();
    try {
      let config = '';
      for (let number = 0; number < 10_000; number += 1) config += `[[route]]\npath = "/many/number-${number}"\nrespond = { text = "x" }\n`;
      many.write('forebay.toml', `${config}[[route]]\npath = "/docs"\nopenapi = {}\n`);
      tab = await browser.tab();
      await tab.send('Page.navigate', { url: `${await many.serve()}/docs` });
      await tab.sees('10000 operations');
      await tab.key('/');
      await tab.send('Input.insertText', { text: '9876' });
      await tab.sees('1 of 10000');
    } finally {
      await many.remove();
    }
  });

  test('a document that does not come is an error that says so', async () => {
    const limited = new Application();
    try {
      // Enough for the page, its script and its style.
      limited.write('forebay.toml', '[policy.few]\nrate_limits = "3/1h"\n[[route]]\npath = "/docs"\npolicy = "few"\nopenapi = {}\n');
      tab = await browser.tab();
      await tab.send('Page.navigate', { url: `${await limited.serve()}/docs` });
      await tab.sees('The document cannot be shown: the server answers 429.');
    } finally {
      await limited.remove();
    }
  });
});
