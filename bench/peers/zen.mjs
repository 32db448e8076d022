import { program } from './installed.mjs';
import { startListening } from './listening.mjs';

/** Fastify evaluating the decisions of a folder with GoRules' engine. */
export const zen = (folder, names) => ({
  name: 'zen-engine in Fastify',
  start: () => startListening('zen-engine in Fastify', process.execPath, [program('fastify-zen.mjs'), folder, ...names]),
});
