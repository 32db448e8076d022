import { program } from './installed.mjs';
import { startListening } from './listening.mjs';

/** Fastify alone, answering /local and /helloworld in its own process. */
export const fastify = {
  name: 'Fastify',
  start: () => startListening('Fastify', process.execPath, [program('fastify.mjs')]),
};
