// The web console in Chromium, served by the built binary. One server and one browser for all tests, which run in their order.
//
// FOREBAY_REFRESH=1 writes the pictures of docs/guide/console.md.
import assert from 'node:assert/strict';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { after, afterEach, before, describe, test } from 'node:test';
import { Browser } from '../../tests/browser.mjs';
import { EDIT_TOKEN, READ_TOKEN, Server } from './server.mjs';

const AXE = readFileSync(new URL('../node_modules/axe-core/axe.min.js', import.meta.url), 'utf8');
const PICTURES = new URL('../../docs/guide/console/', import.meta.url);

describe('console', () => {
  let server;
  let browser;
  let tab;

  before(async () => {
    server = new Server();
    server.run('workflow', 'publish', '1');
    await server.start();
    browser = new Browser('main h1');
    tab = await browser.tab();
  });
  after(async () => {
    await browser?.close();
    await server?.remove();
  });
  afterEach(() => assert.deepEqual(tab.complaints, [], 'the page reports no errors'));

  const show = (hash) => tab.run((hash) => (location.hash = hash), hash);
  const choose = (label, value) =>
    tab.until(
      `the choice “${label}”`,
      (label, value) => {
        const select = [...document.querySelectorAll('select')].find((select) => (select.getAttribute('aria-label') ?? select.labels?.[0]?.firstChild.textContent) === label);
        if (![...(select?.options ?? [])].some((option) => option.value === value)) return false;
        select.value = value;
        return select.dispatchEvent(new Event('change', { bubbles: true }));
      },
      label,
      value,
    );
  const write = (label, text) => tab.type(label, text);
  const enter = (token) => tab.run((token) => (sessionStorage.setItem('forebay-token', token), location.reload()), token);

  test('it asks for a token, and shows what the token allows', async () => {
    await tab.open(`${server.admin}/`);
    await tab.sees('Use it');
    await write('Token', 'wrong');
    await tab.click('button', 'Use it');
    await tab.sees('this is neither the token of admin.read_token nor that of admin.edit_token');
    await write('Token', READ_TOKEN);
    await tab.click('button', 'Use it');
    await tab.heading('Overview');
    await tab.sees('read only');
    await show('#/store/Settings/shop');
    await tab.sees('"currency": "EUR"');
    assert.equal(await tab.run(() => /Edit|Delete|New child/.test(document.querySelector('main').innerText)), false, 'a reader is offered no change');
    await tab.click('button', 'Token');
    await write('Token', 'wrong');
    await tab.click('button', 'Use it');
    await tab.sees('this is neither');
    await tab.key('Escape');
    await show('#/store/Person/1');
    await tab.sees('"Lovelace"');
    assert.equal(await tab.run(() => document.querySelector('dialog')), null, 'the token from before is still in use');
    await show('#/store/Settings/shop');
    await tab.click('button', 'Token');
    await write('Token', EDIT_TOKEN);
    await tab.click('button', 'Use it');
    await tab.sees('Delete');
  });

  test('the overview says whether the server is ready, and sorts its routes', async () => {
    await Promise.all(['/users/7', '/users/8', '/fails', '/hello'].map((path) => fetch(server.url + path)));
    await show('#/overview');
    await tab.sees('checked: 1 pool and the store');
    await tab.sees('/users/:id');
    await tab.click('button', 'Failed');
    await tab.until('the failed ones first', () => document.querySelector('main tbody tr').innerText.startsWith('/fails'));
    await tab.click('button', 'Route');
    await tab.until('them by name', () => document.querySelector('main tbody tr').innerText.startsWith('no route found'));
    await write('Filter routes', 'hello');
    await tab.until('one row', () => document.querySelector('main tbody').rows.length === 1);
    await tab.key('Escape');
    await tab.until('all rows', () => document.querySelector('main tbody').rows.length > 1);
  });

  test('a pool shows its workers, and is resized once that is confirmed', async () => {
    await show('#/pool/api');
    await tab.sees('1 to 2 workers');
    await write('At least', '2');
    await tab.click('button', 'Resize');
    await tab.sees('Pool api will have 2 to 2 workers');
    await tab.click('button', 'Resize it');
    await tab.sees('2 to 2 workers, a queue');
    await tab.until('two workers', () => document.querySelectorAll('[aria-label=Workers] tbody tr').length === 2);
  });

  test('requests that are recorded come failed and slowest first, each with its timeline', async () => {
    await show('#/requests');
    await choose('For', '60');
    await tab.click('button', 'Record');
    await tab.sees('s left');
    await Promise.all(['/users/7', '/slow', '/fails'].map((path) => fetch(server.url + path)));
    await tab.click('button', 'Stop');
    await tab.sees('3 requests, failed and slowest first');
    const rows = await tab.run(() => [...document.querySelectorAll('[aria-label=Requests] tbody tr')].map((row) => row.cells[1].innerText));
    assert.deepEqual(rows, ['GET /fails', 'GET /slow', 'GET /users/7']);
    await tab.click('button', 'GET /slow');
    await tab.until('its spans', () => ['front', 'handler', 'running', 'write'].every((kind) => [...document.querySelectorAll('.spans tbody th')].some((span) => span.innerText === kind)));
    const shares = await tab.run(() => Object.fromEntries([...document.querySelectorAll('.charges tr')].map((row) => [row.cells[0].innerText.trim(), parseFloat(row.cells[2].innerText)])));
    assert.ok(Math.abs(Object.values(shares).reduce((sum, share) => sum + share, 0) - 100) < 1, `the phases add up: ${JSON.stringify(shares)}`);
    assert.ok(['front', 'code', 'handler', 'write'].every((phase) => shares[phase] > 0), JSON.stringify(shares));
  });

  test('one request is traced by its token', async () => {
    await tab.click('button', 'Make a token');
    const [name, value] = await tab.until('the field', () => /^(forebay-trace): (\S+)/m.exec(document.querySelector('[role=status] pre')?.innerText ?? '')?.slice(1));
    await fetch(`${server.url}/users/9`, { headers: { [name]: value } });
    await tab.sees('GET /users/9');
  });

  test('the store is a tree, and its documents keep their digits', async () => {
    await show('#/store');
    await tab.click('button', 'Open Person');
    await tab.click('link', '1');
    await tab.sees('"checksum": 12345678901234567890');
    await show('#/store/Person');
    await write('Find', 'name=Grace');
    await tab.key('Enter');
    await tab.until('the one that matches', () => [...document.querySelectorAll('[aria-label=Children] tbody tr')].map((row) => row.cells[0].innerText).join() === '2');
    await write('Find', 'born=1906');
    await tab.key('Enter');
    await tab.sees('by-name');
    await show('#/store/Orders/open');
    await tab.click('button', 'List and search its children');
    const listed = (from, to) => tab.until(`${from} to ${to}`, (from, to) => [from, to].join() === [0, -1].map((at) => [...document.querySelectorAll('[aria-label=Children] tbody tr')].at(at)?.cells[0].innerText).join(), from, to);
    await listed('1', '50');
    await tab.click('button', 'Next page →');
    await listed('51', '60');
    await tab.click('button', '← Page before');
    await listed('1', '50');
    await tab.click('button', 'Open open');
    await tab.until('the branch', () => [...document.querySelectorAll('.tree button')].some((button) => button.innerText === 'more …'));
    await tab.run(() => [...document.querySelectorAll('.tree button')].find((button) => button.innerText === 'more …').click());
    await tab.until('the last one in the tree', () => [...document.querySelectorAll('.tree a')].some((link) => link.innerText === '60'));
  });

  test('an edit that would overwrite another one shows both', async () => {
    await show('#/store/Settings/shop');
    await tab.click('button', 'Edit');
    await write('Document', '{"currency": ');
    await tab.until('that it is no JSON', () => document.querySelector('textarea').getAttribute('aria-invalid') === 'true');
    await write('Document', '{"currency": "CHF"}');
    await server.change('PUT', 'store/Settings/shop', '{"currency":"NOK","open":false}');
    await tab.click('button', 'Save');
    await tab.sees('Somebody has changed this document since you opened it');
    assert.deepEqual(await tab.run(() => [...document.querySelectorAll('.diff .removed, .diff .added')].map((line) => line.innerText.trim())), ['−   "currency": "NOK",', '−   "open": false', '+   "currency": "CHF"']);
    await tab.click('button', 'Replace theirs with mine');
    await tab.until('it to be written', () => document.querySelector('.diff') === null && document.body.innerText.includes('"currency": "CHF"'));
    await tab.click('button', 'New child');
    await write('Key', 'closed');
    await write('Document of the new child', 'true');
    await tab.click('button', 'Create');
    await tab.sees('"closed": true');
    await show('#/store/Settings/shop/closed');
    await tab.click('button', 'Delete');
    await tab.sees('everything below it will be gone');
    await tab.click('button', 'Delete it');
    await tab.until('the node above', () => location.hash === '#/store/Settings/shop' && !document.body.innerText.includes('"closed"'));
  });

  test('changes appear as they are committed', async () => {
    await show('#/store?tab=changes');
    await tab.sees('Settings/shop/closed');
    await server.change('PUT', 'store/Settings/bank', '{"name":"a bank"}');
    await tab.sees('{"name":"a bank"}');
  });

  test('statements find records, and mistakes are shown at their place', async () => {
    await show('#/records');
    await write('Statement', "WHERE EQ(name 'Ada')");
    await tab.key('Enter', 2);
    await tab.sees('1 row in');
    assert.equal(await tab.run(() => document.querySelector('[aria-label=Results] tbody a').getAttribute('href')), '#/store/Person/1');
    assert.ok(await tab.run(() => document.querySelector('[aria-label=Results]').innerText.includes('12345678901234567890')));
    await write('Statement', 'WHERE\n  EQ(name');
    await tab.key('Enter', 2);
    await tab.sees('^ line 2');
    await choose('History', "WHERE EQ(name 'Ada')");
    await tab.until('the statement again', () => document.querySelector('textarea').value === "WHERE EQ(name 'Ada')");
  });

  test('a run is laid over the graph of its workflow', async () => {
    await show('#/workflows/order');
    await tab.sees('below the limit');
    await write('Arguments, or a trace', '{"amount": 400, "customer": "Ada"}');
    await tab.click('button', 'Run with trace');
    const states = () => Object.fromEntries([...document.querySelectorAll('.graph [data-id]')].map((node) => [node.dataset.id, node.getAttribute('class').replace(/node|\s|chosen/g, '')]));
    await tab.until('the trace', () => document.querySelector('.graph .step-true') !== null);
    const marks = await tab.run(states);
    assert.deepEqual([marks['2'], marks['3'], marks['4'], marks['5']], ['step-false', 'step-true', '', 'step-true']);
    await tab.run(() => document.querySelector('.graph [data-id="5"]').focus());
    await tab.key('Enter');
    await tab.sees('approve by name RUN');
    await tab.sees('"approved": true');
  });

  test('a decision table is a table, and shows the row that decided', async () => {
    await show('#/workflows/shipping?node=fees');
    await tab.sees('The first row that matches decides.');
    assert.deepEqual(await tab.run(() => [...document.querySelector('.decision tbody').rows[2].cells].map((cell) => cell.innerText)), ['3', "'AT', 'CH'", '[0..20]', "'parcel'", '8 + 2 * weight']);
    await write('Arguments, or a trace', '{"country": "CH", "weight": 5}');
    await tab.click('button', 'Run with trace');
    await tab.until('the row', () => document.querySelector('.decision .chosen th')?.innerText === '3');
    await show('#/workflows/shipping?node=tax');
    await tab.sees('fee * 1.2');
  });

  test('releases are compared by their files, nodes and lines', async () => {
    await show('#/workflows?tab=releases');
    await tab.sees('known customers need no approval');
    await choose('From', '1');
    await choose('To', '2');
    await tab.sees('From release 1 to 2');
    await tab.until('the graph of both', () => document.querySelector('.graph .removed') !== null);
    assert.deepEqual(await tab.run(() => ['removed', 'changed', 'added'].map((what) => document.querySelectorAll(`.graph .${what}`).length)), [1, 2, 0]);
    await tab.sees('+       "name": "small amount"');
  });

  test('a job that failed is shown with its request, and tried again', async () => {
    await fetch(`${server.url}/mails`, { method: 'POST', body: '{}' });
    await show('#/jobs?state=failed');
    await tab.sees('the handler has answered with status 422');
    await tab.run(() => document.querySelector('[aria-label=Jobs] tbody a').click());
    await tab.sees('"body": "{}"');
    const attempts = (count) => tab.until(`${count} attempts`, (count) => [...document.querySelectorAll('.panel dd')].some(({ innerText }, at) => at === 1 && innerText === count), count);
    await attempts('1');
    await tab.click('button', 'Retry now');
    await attempts('2');
    await tab.click('button', 'Remove');
    await tab.click('button', 'Remove it');
    await tab.sees('No job matches');
    await show('#/store/%25jobs/queue/POST%20%2Fmails');
    await tab.sees('"running": 0');
  });

  test('the log is live, filtered, and leads to the lines of a request', async () => {
    await show('#/logs');
    await tab.sees('worker ready');
    await fetch(`${server.url}/users/77`, { headers: { 'x-request-id': 'a-request-of-the-test' } });
    await tab.sees('a-request-of-the-test');
    await write('Filter lines', 'of-the-test');
    await tab.until('one line', () => document.querySelectorAll('.log li').length === 1);
    await tab.run(() => document.querySelector('.log li button').click());
    await tab.sees('"id": "77"');
    await tab.click('button', 'Pause');
    await write('Filter lines', '');
    await fetch(`${server.url}/users/78`, { headers: { 'x-request-id': 'while-it-rests' } });
    await tab.click('button', 'Go on');
    await tab.sees('while-it-rests');
    await choose('Least severe level', 'error');
    await tab.sees('a job has failed for good');
    await tab.until('no other lines', () => document.querySelector('.log .level-info') === null);
  });

  test('a report is opened from a file', async () => {
    const rung = (name, rate) => ({ name, requests_per_second: rate, requests_per_second_interval: [rate * 0.97, rate * 1.03], p50_ms: 0.2, p99_ms: 1.1, cpu_us_per_request: 4.2, verdict: 'holds', notes: [] });
    const report = server.write('report.json', JSON.stringify({ bench: 'ladder', seconds: 62, rungs: [rung('respond', 310_000), rung('files', 240_000), rung('pool', 91_000)] }));
    await show('#/bench');
    await tab.sees('Open a report, or drop it here');
    const open = async (file) => {
      const { root } = await tab.send('DOM.getDocument');
      const { nodeId } = await tab.send('DOM.querySelector', { nodeId: root.nodeId, selector: 'input[type=file]' });
      await tab.send('DOM.setFileInputFiles', { nodeId, files: [file] });
    };
    await open(server.write('seed.json', '{}'));
    await tab.sees('seed.json is no report');
    await open(report);
    await tab.sees('310,000/s');
    await tab.sees('300,700 – 319,300');
    server.run('load', `${server.url}/hello`, '--count', '200', '--json=load.json');
    await open(server.file('load.json'));
    await tab.sees(`${server.url}/hello`);
  });

  test('what a server does not have is said, with what to do', async () => {
    const bare = new Server({ bare: true });
    after(() => bare.remove());
    await bare.start();
    const other = await browser.tab();
    await other.open(`${bare.admin}/console/`);
    await other.until('why it is not ready', () => /Pool broken is failing: .*the licence has ended/.test(document.querySelector('.health')?.innerText));
    await other.sees('read only');
    for (const [hash, text] of [['store', 'Add the section [store] to forebay.toml'], ['records', 'This server has no records'], ['workflows', 'Add the section [workflow]'], ['jobs', 'This server has no durable jobs']]) {
      await other.run((hash) => (location.hash = `#/${hash}`), hash);
      await other.sees(text);
    }
    assert.deepEqual(other.complaints, []);
    await other.send('Page.close');
    await tab.send('Page.bringToFront');
  });

  test('everything is reached by keys', async () => {
    await show('#/bench');
    await tab.heading('Bench');
    await tab.key('o');
    await tab.key('?');
    await tab.sees('To the filter of the page');
    await tab.key('Escape');
    await tab.until('the dialog closed', () => document.querySelector('dialog') === null);
    assert.equal(await tab.run(() => location.hash), '#/bench', 'a letter alone leads nowhere');
    await tab.key('g');
    await tab.key('j');
    await tab.heading('Jobs');
    await tab.key('/');
    await tab.until('the filter', () => document.activeElement.getAttribute('aria-label') === 'Filter jobs');
    await tab.key('Escape');
    await tab.key('g');
    await tab.key('o');
    await tab.heading('Overview');
    await show('#/nothing');
    await tab.sees('There is no such page');
  });

  test('a page that cannot be drawn says so, and the others are there', async () => {
    await tab.run(() => {
      const { fetch } = window;
      window.fetch = (address, ...rest) => (address === 'api/status' ? Promise.resolve(Response.json({})) : fetch(address, ...rest));
    });
    await show('#/overview');
    await tab.sees('This page could not be shown');
    await tab.click('link', 'Store');
    await tab.sees('Choose a node');
    await tab.run(() => location.reload());
    await tab.sees('Choose a node');
  });

  const PAGES = [
    ['overview', '#/overview', 'Requests'],
    ['route', '#/route/%2Fusers%2F%3Aid', 'Since the start'],
    ['pool', '#/pool/api', 'Time of handlers'],
    ['requests', '#/requests', 'Nothing is recorded yet'],
    ['store', '#/store/Person/1', '"Lovelace"'],
    ['changes', '#/store?tab=changes', 'Settings/bank'],
    ['records', '#/records', 'Run a statement'],
    ['workflow', '#/workflows/order?node=2', 'below-limit'],
    ['decision', '#/workflows/shipping?node=fees', 'The first row'],
    ['releases', '#/workflows?tab=releases&from=1&to=2', 'small amount'],
    ['jobs', '#/jobs', 'POST /mails'],
    ['logs', '#/logs', 'user read'],
    ['bench', '#/bench', 'Open a report'],
  ];

  test('nobody is kept out: axe finds nothing serious, and a phone scrolls one way', async () => {
    await tab.run((source) => (0, eval)(source), AXE);
    const serious = (rules) => tab.run((rules) => axe.run(document, { resultTypes: ['violations'], ...(rules && { runOnly: rules }) }).then(({ violations }) => violations.filter(({ impact }) => ['serious', 'critical'].includes(impact)).map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map(({ html }) => html.slice(0, 120))}`)), rules);
    for (const [name, hash, text] of PAGES) {
      await show(hash);
      await tab.sees(text);
      for (const dark of [false, true]) {
        await tab.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
        // The rules that do not depend on colours are asked once.
        assert.deepEqual(await serious(dark ? ['color-contrast'] : undefined), [], `${name}, ${dark ? 'dark' : 'light'}`);
      }
      await tab.send('Emulation.setDeviceMetricsOverride', { width: 360, height: 740, deviceScaleFactor: 1, mobile: true });
      assert.equal(await tab.run(() => document.documentElement.scrollWidth), 360, `${name} on a phone`);
      await tab.send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 800, deviceScaleFactor: 1, mobile: false });
    }
  });

  test('a phone has all pages', async () => {
    await tab.send('Emulation.setDeviceMetricsOverride', { width: 360, height: 740, deviceScaleFactor: 1, mobile: true });
    await tab.click('button', 'More');
    await tab.click('link', 'Workflows');
    await tab.heading('Workflows');
    await tab.until('the bar to be low again', () => document.querySelector('.toggle button').getAttribute('aria-expanded') === 'false');
    await tab.send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 800, deviceScaleFactor: 1, mobile: false });
  });

  test('plots show the last hour', async () => {
    await show('#/overview');
    await tab.until('four plots', () => document.querySelectorAll('.plot canvas').length === 4);
    await tab.until('figures of requests', () => /Requests in the last hour; all [\d.]+\/s/.test(document.querySelector('.plot [role=img]').getAttribute('aria-label')));
  });

  test('a hidden page asks for nothing', async () => {
    const asked = () => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/api/status')).length;
    const more = (count) => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/api/status')).length > count;
    await tab.run(() => performance.clearResourceTimings());
    // A tab in front of it. It is the clock: it asks as often as the hidden one would.
    const other = await browser.tab();
    await other.open(`${server.admin}/console/`);
    await other.run((token) => (sessionStorage.setItem('forebay-token', token), location.reload()), READ_TOKEN);
    await other.heading('Overview');
    await tab.until('it to be hidden', () => document.hidden);
    const before = await tab.run(asked);
    await other.until('three polls', more, (await other.run(asked)) + 2);
    assert.ok((await tab.run(asked)) <= before + 1, 'only what was under way has been asked');
    await other.send('Page.close');
    await tab.send('Page.bringToFront');
    await tab.until('that it asks again', more, before + 1);
  });

  test('a server that is lost is shown, and found again', async () => {
    await show('#/overview');
    await tab.sees('/users/:id');
    await server.stop();
    await tab.sees('The server has not answered for');
    await tab.sees('/users/:id');
    await server.start();
    await tab.until('that it answers', () => !document.body.innerText.includes('has not answered'));
    await tab.sees('checked: 1 pool and the store');
  });

  test('the pictures of the documentation', { skip: process.env.FOREBAY_REFRESH === undefined, timeout: 600_000 }, async () => {
    mkdirSync(PICTURES, { recursive: true });
    const picture = async (name, { hash, sees, dark = false, width = 1280, height = 800, prepare }) => {
      await tab.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: dark ? 'dark' : 'light' }] });
      await tab.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 });
      await show(hash);
      await tab.sees(sees);
      await prepare?.();
      await tab.run(() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn))));
      writeFileSync(new URL(`${name}.png`, PICTURES), await tab.picture());
    };
    const points = async () => (await (await fetch(`${server.admin}/console/api/history`, { headers: { authorization: `Bearer ${READ_TOKEN}` } })).json()).at_ms.length;
    // A few minutes of more and less traffic.
    for (let turn = 0; (await points()) < 20; turn += 1) {
      const paths = ['/users/7', '/hello', '/users/8', ...(turn % 3 === 0 ? ['/slow'] : []), ...(turn % 20 === 0 ? ['/fails'] : [])];
      for (let repeat = 0; repeat <= 2 + 2 * Math.sin(turn / 100); repeat += 1) await Promise.all(paths.map((path) => fetch(server.url + path)));
    }
    await picture('overview', { hash: '#/overview', sees: '/users/:id', height: 900 });
    await picture('overview-phone', { hash: '#/overview', sees: '/users/:id', width: 360, height: 740 });
    await picture('logs-phone-dark', { hash: '#/logs', sees: 'user read', width: 360, height: 740, dark: true });
    const record = async () => {
      await tab.click('button', 'Record');
      await tab.sees('s left');
      for (const path of ['/slow', '/users/7', '/users/8', '/fails', '/hello']) await fetch(server.url + path);
      await tab.click('button', 'Stop');
      await tab.click('button', 'GET /slow');
      await tab.sees('Every moment');
    };
    await picture('requests', { hash: '#/requests', sees: 'Nothing is recorded yet', height: 900, prepare: record });
    const run = (argument, sees) => async () => {
      await write('Arguments, or a trace', argument);
      await tab.click('button', 'Run with trace');
      await tab.sees(sees);
      await tab.run(() => scrollTo(0, 0));
    };
    await picture('workflow', { hash: '#/workflows/order?node=3', sees: 'below the limit', prepare: run('{"amount": 400, "customer": "Ada"}', 'true in') });
    await picture('decision-dark', { hash: '#/workflows/shipping?node=fees', sees: 'The first row', dark: true, prepare: run('{"country": "CH", "weight": 5}', 'decided in') });
    const conflict = async () => {
      await tab.click('button', 'Edit');
      await write('Document', '{\n  "currency": "EUR",\n  "open": true\n}');
      await server.change('PUT', 'store/Settings/shop', '{"currency":"NOK","open":false}');
      await tab.click('button', 'Save');
      await tab.sees('Somebody has changed');
    };
    await picture('conflict', { hash: '#/store/Settings/shop', sees: 'ETag', height: 560, prepare: conflict });
  });
});
