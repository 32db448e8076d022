// Records and their controller, which runs in many places, as in the showcase.

import { fileURLToPath } from 'node:url';

const controller = fileURLToPath(new URL('../../examples/showcase/handlers/articles.mjs', import.meta.url));
const ownRead = fileURLToPath(new URL('../handlers/own-read.mjs', import.meta.url));
const constant = fileURLToPath(new URL('../handlers/constant.py', import.meta.url));

/** A record of 81 bytes, in canonical form. */
export const RECORD = '{"kind":"Article","text":"Just some text, and a little more.","title":"Sample 1"}';

/** The controller's response for it. */
const ANSWER = `{"code":0,"results":[{"id":1,"data":${RECORD}}]}`;

/** NDJSON that seeds the store with that record, as number 1. */
export const SEED = `{"path":["%Kind","Article"],"value":true}
{"path":["%Ref"],"value":1}
{"path":["%Ref",1],"value":"Article"}
{"path":["Article",1],"document":${RECORD}}
`;

/** Files next to the configuration. */
export const FILES = { 'record.json': RECORD };

const rung = (name, route, path, body, target) => ({ name, route, path, body, target });
const pool = (name, keys) => `[pool.${name}]\nhandler = "${controller}"\n${keys}\nworkers = { min = 1, max = 1 }`;
const python = `[pool.py]\nhandler = "${constant}"\nruntime = "python"\nworkers = { min = 1, max = 1 }`;

/** Pipes have no shared page, so no job is queued in the worker unless it may run several at a time. */
const SEVERAL = 'concurrency = 32';

/**
 * All rungs: the route's `target`, the `route` as the server names it, the request, and the expected response. Each has one worker, as in
 * the showcase.
 */
export const RUNGS = [
  rung('memory', '/local', '/local', '{"status":"success","result":"local"}', null),
  rung('file', '/file/*', '/file/record.json', RECORD, 'files = "."'),
  rung('store', '/store/*', '/store/Article/1', RECORD, 'store = {}'),
  rung('record', '/json/*', '/json/0000000000000001', RECORD, 'records = {}'),
  rung('script', '/e1/*', '/e1/Article/1', ANSWER, 'script = "e1"'),
  rung('script, own read', '/o1/*', '/o1/Article/1', ANSWER, 'script = "o1"'),
  rung('Node pool', '/n1/*', '/n1/Article/1', ANSWER, 'pool = "n1"'),
  rung('Bun pool', '/b1/*', '/b1/Article/1', ANSWER, 'pool = "b1"'),
  rung('framed stdio', '/f1/*', '/f1/Article/1', ANSWER, 'pool = "f1"'),
  rung('JSONL', '/v1/*', '/v1/Article/1', ANSWER, 'pool = "v1"'),
  rung('WABuR', '/w1/*', '/w1/Article/1', ANSWER, 'pool = "w1"'),
  rung('Python pool', '/py', '/py', RECORD, 'pool = "py"'),
];

/** The sections of a configuration with all of them. */
export const SECTIONS = [
  '[store]\npath = "data"',
  '[store.access]\nArticle = { read = "public", write = "public" }\nEntry = { read = "public", write = "public" }',
  `[script.e1]\nhandler = "${controller}"\nallow = { store = ["Article", "Entry"] }`,
  `[script.o1]\nhandler = "${ownRead}"\nallow = { store = ["Article"] }`,
  pool('n1', 'runtime = "node"'),
  pool('b1', 'runtime = "bun"'),
  pool('f1', `runtime = "node"\nlink = "stdio"\n${SEVERAL}`),
  pool('v1', `runtime = "node"\nprotocol = "jsonl"\n${SEVERAL}`),
  pool('w1', `runtime = "node"\nprotocol = "wabur"\n${SEVERAL}`),
  python,
  ...RUNGS.filter(({ target }) => target).map(({ route, target }) => `[[route]]\npath = "${route}"\n${target}`),
].join('\n\n');
