// A small server of everything that the console shows, in a folder of its own.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const FOREBAY = process.env.FOREBAY_BINARY ?? new URL('../../target/debug/forebay', import.meta.url).pathname;

export const READ_TOKEN = 'read-token-of-the-test';
export const EDIT_TOKEN = 'edit-token-of-the-test';
const ENVIRONMENT = { ...process.env, CONSOLE_READ: READ_TOKEN, CONSOLE_EDIT: EDIT_TOKEN };

const CONFIGURATION = `
[admin]
read_token = "CONSOLE_READ"
edit_token = "CONSOLE_EDIT"

[store]
path = "data"

[store.index.by-name]
records = "Person"
fields = ["name"]

[workflow]
store = "Workflow"

[pool.api]
handler = "handler.mjs"
workers = { min = 1, max = 2 }

[[route]]
path = "/users/:id"
pool = "api"

[[route]]
path = "/slow"
pool = "api"

[[route]]
path = "/fails"
pool = "api"

[[route]]
path = "/mails"
pool = "api"
durable = {}

[[route]]
path = "/hello"
respond = { text = "hello" }
`;

const HANDLER = `
import { HttpError, router } from 'forebay';
export default router()
  .get('/users/:id', ({ params }, { log }) => {
    log.info('user read', { id: params.id });
    return { id: params.id, name: 'Ada' };
  })
  .get('/slow', async () => {
    await new Promise((resolve) => setTimeout(resolve, 150));
    return { slow: true };
  })
  .get('/fails', () => {
    throw new Error('the database is away');
  })
  .post('/mails', async (request) => {
    const { to } = await request.json();
    if (!to) throw new HttpError(422, 'no address');
    return { sent: to };
  });
`;

const ORDER = {
  attributes: { limit: 100 },
  nodes: [
    { '@type': 'BOOT', id: '0', name: 'start' },
    { '@type': 'LOGICAL', id: '1', name: 'either', logical: 'OR' },
    { '@type': 'RELATION', id: '2', name: 'below the limit', ruleId: 'below-limit', priority: 1 },
    { '@type': 'RELATION', id: '3', name: 'known customer', ruleId: 'known', priority: 2 },
    { '@type': 'RUN', id: '4', name: 'approve', ruleId: 'approve' },
    { '@type': 'RUN', id: '5', name: 'approve by name', ruleId: 'approve' },
  ],
  edges: [
    { from: '0', to: '1' },
    { from: '1', to: '2' },
    { from: '1', to: '3' },
    { from: '2', to: '4' },
    { from: '3', to: '5' },
  ],
};

const RULES = {
  'below-limit': 'function process(context) { const { amount } = context.getArgs(); return new ScriptResult(amount < context.getAttributes().limit, { amount }); }',
  known: "function process(context) { return new ScriptResult(context.getArgs().customer === 'Ada', {}); }",
  approve: 'function process(context) { return new ScriptResult(true, { approved: true }); }',
};

const column = (id, name) => ({ id, name, field: id });
const SHIPPING = {
  nodes: [
    { id: 'request', name: 'request', type: 'inputNode' },
    {
      id: 'fees',
      name: 'fees',
      type: 'decisionTableNode',
      content: {
        hitPolicy: 'first',
        inputs: [column('country', 'Country'), column('weight', 'Weight, kg')],
        outputs: [column('carrier', 'Carrier'), column('fee', 'Fee, EUR')],
        rules: [
          { _id: '1', country: "'DE'", weight: '<= 2', carrier: "'letter'", fee: '3.5' },
          { _id: '2', country: "'DE'", weight: '', carrier: "'parcel'", fee: '4 + weight' },
          { _id: '3', country: "'AT', 'CH'", weight: '[0..20]', carrier: "'parcel'", fee: '8 + 2 * weight' },
          { _id: '4', country: '', weight: '', carrier: "'freight'", fee: '50' },
        ],
      },
    },
    { id: 'tax', name: 'tax', type: 'expressionNode', content: { expressions: [{ id: 'x1', key: 'fee', value: 'fee * 1.2' }, { id: 'x2', key: 'carrier', value: 'carrier' }] } },
    { id: 'response', name: 'response', type: 'outputNode' },
  ],
  edges: [
    { id: 'e1', sourceId: 'request', targetId: 'fees', type: 'edge' },
    { id: 'e2', sourceId: 'fees', targetId: 'tax', type: 'edge' },
    { id: 'e3', sourceId: 'tax', targetId: 'response', type: 'edge' },
  ],
};

const PEOPLE = [
  ['Ada', 'Lovelace', 1815, ['analysis', 'notes']],
  ['Grace', 'Hopper', 1906, ['compilers']],
  ['Barbara', 'Liskov', 1939, ['types', 'distribution']],
  ['Edsger', 'Dijkstra', 1930, ['paths']],
];

/** Lines for `forebay store import`: a kind with records, and documents of no kind. */
function seed() {
  const people = PEOPLE.flatMap(([name, family, born, fields], at) => [
    { path: ['%Ref', at + 1], value: 'Person' },
    { path: ['Person', at + 1], document: { kind: 'Person', name, family, born, fields, checksum: 12345678901234567890n } },
  ]);
  const settings = { path: ['Settings', 'shop'], document: { currency: 'EUR', open: true, note: null, addresses: [{ city: 'Oslo', zip: '0150' }] } };
  const orders = Array.from({ length: 60 }, (_, at) => ({ path: ['Orders', 'open', at + 1], document: { amount: 10 * at } }));
  return [{ path: ['%Kind', 'Person'], value: true }, ...people, { path: ['%Ref'], value: PEOPLE.length }, settings, ...orders]
    .map((line) => JSON.stringify(line, (_, value) => (typeof value === 'bigint' ? JSON.rawJSON?.(String(value)) ?? Number(value) : value)))
    .join('\n');
}

/** A port that nobody listens on. The server cannot choose one for the console: it does not say which. */
async function freePort() {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address();
  listener.close();
  await once(listener, 'close');
  return port;
}

export class Server {
  #folder = mkdtempSync(join(tmpdir(), 'forebay-console-'));
  #child;
  #ports;

  /** `bare`: a server with nothing but a pool that does not start. */
  constructor({ bare = false } = {}) {
    if (bare) {
      this.write('forebay.toml', '[pool.broken]\nhandler = "broken.mjs"\n[[route]]\npath = "/"\npool = "broken"\n');
      this.write('broken.mjs', "throw new Error('the licence has ended');\nexport default () => 'never';\n");
      return;
    }
    this.write('forebay.toml', CONFIGURATION);
    this.write('handler.mjs', HANDLER);
    this.write('seed.ndjson', seed());
    this.run('store', 'import', 'seed.ndjson');
    this.#release(ORDER, 'the first one');
    const changed = structuredClone(ORDER);
    changed.nodes[2].name = 'small amount';
    changed.nodes.splice(5, 1);
    changed.edges.splice(4, 1);
    changed.nodes[3]['@type'] = 'RUN';
    this.#release(changed, 'known customers need no approval');
  }

  file(name) {
    return join(this.#folder, name);
  }

  write(name, text) {
    const file = this.file(name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    return file;
  }

  run(...args) {
    const { status, stdout, stderr } = spawnSync(FOREBAY, args, { cwd: this.#folder, env: ENVIRONMENT, encoding: 'utf8' });
    assert.equal(status, 0, `forebay ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  /** A request past the page. */
  async change(method, path, body) {
    const response = await fetch(`${this.admin}/console/api/${path}`, { method, body, headers: { authorization: `Bearer ${EDIT_TOKEN}`, 'forebay-console': '1' } });
    assert.ok(response.ok, await response.text());
  }

  #release(order, note) {
    this.write('workflows/order.json', JSON.stringify(order, null, 2));
    this.write('workflows/shipping.json', JSON.stringify(SHIPPING, null, 2));
    for (const [name, text] of Object.entries(RULES)) this.write(`workflows/rules/${name}.js`, text);
    this.run('workflow', 'import', 'workflows', '--note', note, '--by', 'ada');
  }

  /** Starts the server, again on the ports that it had before. */
  async start() {
    this.#ports ??= [await freePort(), await freePort()];
    const [listen, admin] = this.#ports.map((port) => `127.0.0.1:${port}`);
    [this.url, this.admin] = [`http://${listen}`, `http://${admin}`];
    const child = spawn(FOREBAY, ['serve', '--listen', listen, '--admin', admin], { cwd: this.#folder, env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#child = child;
    let log = '';
    child.stderr.setEncoding('utf8').on('data', (text) => (log = (log + text).slice(-4000)));
    await new Promise((resolve, reject) => {
      child.stdout.once('data', resolve);
      child.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
    });
  }

  async stop() {
    const child = this.#child;
    if (child === undefined || child.exitCode !== null) return;
    const ended = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
