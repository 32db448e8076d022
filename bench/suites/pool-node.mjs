import { availableParallelism } from 'node:os';
import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { bunServe } from '../peers/bun.mjs';
import { fastify } from '../peers/fastify.mjs';
import { fastifyQoper8 } from '../peers/qoper8.mjs';
import { atLeast, atMost, ratioRow } from '../rows.mjs';
import { HELLO } from './bodies.mjs';

/** One Node worker behind Forebay, compared with servers that answer in their own process and with QOper8. */
export const poolNode = {
  name: 'pool-node',
  title: '/helloworld from one Node worker, 64 connections',
  needsForebay: true,
  async run(context) {
    const subject = forebay(context.binary, 'Forebay, 1 Node worker', { pool: { runtime: 'node', workers: 1 } });
    const bun = await comparePairs(context, subject, bunServe, HELLO);
    const alone = await comparePairs(context, subject, fastify, HELLO);
    const qoper8 = await comparePairs(context, subject, fastifyQoper8(1), HELLO);
    const qoper8PerCore = await comparePairs(context, subject, fastifyQoper8(availableParallelism()), HELLO);
    return {
      comparisons: [bun, alone, qoper8, qoper8PerCore],
      rows: [
        ratioRow(bun, 'requests_per_s', { what: 'requests/s, Forebay : Bun.serve', bar: atLeast(0.85), notes: ['goal 1.0'] }),
        ratioRow(bun, 'cpu_us_per_request', { what: 'CPU per request, Forebay : Bun.serve', bar: atMost(1.5) }),
        ratioRow(qoper8, 'requests_per_s', { what: 'requests/s, Forebay : Fastify + qoper8-cp, 1 worker each', bar: atLeast(8) }),
        ratioRow(qoper8PerCore, 'requests_per_s', { what: 'requests/s, Forebay with 1 worker : Fastify + qoper8-cp with one per core' }),
        ratioRow(alone, 'requests_per_s', { what: 'requests/s, Forebay : Fastify alone', bar: atLeast(1.5) }),
      ],
    };
  },
};
