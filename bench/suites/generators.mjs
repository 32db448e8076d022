import { forebay } from '../forebay.mjs';
import { heldConnections, memoryOverRequests } from '../generatorlimits.mjs';
import { forebayLoad, generate, generators } from '../generators.mjs';
import { checkAnswer } from '../measure.mjs';
import { nginx } from '../peers/nginx.mjs';
import { stop } from '../processes.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { LOCAL } from './bodies.mjs';

/** Peers with keep-alive, and the minimum ratio of their CPU time to ours. */
const PEERS = [
  [generators.wrk, 1.25],
  [generators.ab, 1.25],
  [generators.oha, 1.9],
  [generators.autocannon, 2.4],
  [generators.bombardier, null],
];

/** Connections that one process of the generator must hold. */
const CONNECTIONS = 10_000;

/** Two generators on one running server, in ABBA pairs. */
async function compareGenerators(context, server, a, b, options) {
  const pairs = [];
  for (let number = 0; number < context.pairs; number += 1) {
    const order = number % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
    const pair = { order: order.join('') };
    for (const side of order) {
      const subject = side === 'a' ? a : b;
      context.progress(`${a.name} : ${b.name}, pair ${number + 1} of ${context.pairs}, ${subject.name}`);
      pair[side] = await generate(subject, server, { ...LOCAL, ...options, seconds: context.seconds });
    }
    pairs.push(pair);
  }
  return { a: a.name, b: b.name, paths: { a: LOCAL.path, b: LOCAL.path }, connections: LOCAL.connections, pairs };
}

/** `forebay load` compared with other generators: the cost of a request for the generator. */
export const loadGenerators = {
  name: 'generators',
  title: 'generators at 64 connections, CPU of the generator',
  needsForebay: true,
  async run(context) {
    const own = forebayLoad(context.binary);
    const peers = [...PEERS, [forebayLoad(context.binary, 'epoll'), null]];
    const comparisons = [];
    const rows = [];
    const absent = peers.map(([peer]) => peer).filter((peer) => !peer.isThere());
    if (absent.length > 0) context.progress(`not installed and left out: ${absent.map(({ name }) => name).join(', ')}\n`);
    for (const target of [nginx, forebay(context.binary, 'Forebay /local')]) {
      const server = await target.start(context.folder);
      try {
        await checkAnswer(server, LOCAL.path, LOCAL.body);
        for (const [peer, limit] of peers.filter(([each]) => each.isThere())) {
          const comparison = await compareGenerators(context, server, peer, own, { keepAlive: true });
          comparisons.push({ ...comparison, a: `${peer.name} on ${target.name}`, b: `${own.name} on ${target.name}` });
          rows.push(ratioRow(comparison, 'cpu_us_per_request', {
            what: `CPU per request on ${target.name}, ${peer.name} : forebay load`,
            bar: limit === null ? undefined : atLeast(limit),
          }));
        }
        if (generators.ab.isThere()) {
          const closed = await compareGenerators(context, server, own, generators.ab, { keepAlive: false });
          comparisons.push({ ...closed, a: `${own.name}, closing, on ${target.name}`, b: `ab, closing, on ${target.name}` });
          rows.push(ratioRow(closed, 'requests_per_s', {
            what: `requests/s without keep-alive on ${target.name}, forebay load : ab`,
            bar: atLeast(1),
          }));
        }
      } finally {
        await stop(server.process);
      }
    }
    rows.push(await heldConnections(context, { connections: CONNECTIONS, seconds: context.seconds }));
    if (context.memoryRequests) rows.push(...(await memoryOverRequests(context, { requests: context.memoryRequests })));
    return { comparisons, rows };
  },
};
