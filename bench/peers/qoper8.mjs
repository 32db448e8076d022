import { program } from './installed.mjs';
import { startListening } from './listening.mjs';

/**
 * Fastify with a QOper8 pool of `poolSize` child processes answering /helloworld. The pool is the unmodified package qoper8-cp.
 * The plugin qoper8-fastify is not in the npm registry, so a dozen lines of ours replace it (servers/fastify-qoper8.mjs); they
 * omit its structuredClone of every reply, which saves this peer work.
 */
export function fastifyQoper8(poolSize) {
  const name = `Fastify + qoper8-cp (pool ${poolSize})`;
  return {
    name,
    start: () => startListening(name, process.execPath, [program('fastify-qoper8.mjs'), String(poolSize)]),
  };
}

/** Fastify with the plugin forebay/qoper8/fastify, whose workers are processes (`child_process`) or threads (`worker_thread`). */
export function fastifyForebay(mode, poolSize) {
  const name = `Fastify + forebay/qoper8/fastify (${mode === 'child_process' ? 'processes' : 'threads'}, pool ${poolSize})`;
  return {
    name,
    start: () => startListening(name, process.execPath, [program('fastify-forebay.mjs'), mode, String(poolSize)]),
  };
}
