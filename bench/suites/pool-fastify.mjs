import { comparePairs } from '../pairs.mjs';
import { fastify } from '../peers/fastify.mjs';
import { fastifyForebay, fastifyQoper8 } from '../peers/qoper8.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { HELLO } from './bodies.mjs';

/** Fastify with the plugin forebay/qoper8/fastify, compared with Fastify alone and with qoper8-cp; without a Forebay server. */
export const poolFastify = {
  name: 'pool-fastify',
  title: '/helloworld from one worker behind Fastify, 64 connections',
  needsForebay: false,
  async run(context) {
    const processes = fastifyForebay('child_process', 1);
    const alone = await comparePairs(context, processes, fastify, HELLO);
    const qoper8 = await comparePairs(context, processes, fastifyQoper8(1), HELLO);
    const threads = await comparePairs(context, fastifyForebay('worker_thread', 1), fastify, HELLO);
    return {
      comparisons: [alone, qoper8, threads],
      rows: [
        ratioRow(alone, 'requests_per_s', { what: 'requests/s, Fastify + forebay/qoper8/fastify : Fastify alone', bar: atLeast(0.7) }),
        ratioRow(qoper8, 'requests_per_s', { what: 'requests/s, Fastify + forebay/qoper8/fastify : Fastify + qoper8-cp, 1 worker each', bar: atLeast(3) }),
        ratioRow(threads, 'requests_per_s', { what: 'requests/s, the same with a thread : Fastify alone' }),
        ratioRow(alone, 'cpu_us_per_request', { what: 'CPU per request, Fastify + forebay/qoper8/fastify : Fastify alone' }),
      ],
    };
  },
};
