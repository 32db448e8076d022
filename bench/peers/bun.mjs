import { bun, program } from './installed.mjs';
import { startListening } from './listening.mjs';

/** Bun.serve with `routes`, answering /local and /helloworld in its own process. */
export const bunServe = {
  name: 'Bun.serve',
  start: () => startListening('Bun.serve', bun, [program('bun.mjs')]),
};
