import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { nginxJs, nginxLua, nginxLuaText } from '../peers/nginx.mjs';
import { atMost, ratioRow } from '../rows.mjs';
import { HELLO, LOCAL } from './bodies.mjs';
import { present } from './present.mjs';

const BARS = new Map([
  [nginxLua, atMost(1.15)],
  [nginxJs, atMost(1)],
]);

/** A script inside the server, compared with scripts inside nginx and with a body from memory. */
export const script = {
  name: 'script',
  title: '/helloworld from a script in the server, 64 connections',
  needsForebay: true,
  async run(context) {
    const side = (load) => forebay(context.binary, 'Forebay, script', { script: true, load });
    const { there, skipped } = present([nginxLua, nginxLuaText, nginxJs]);
    const comparisons = [];
    const rows = [];
    for (const peer of there) {
      const comparison = await comparePairs(context, side(), peer, HELLO);
      comparisons.push(comparison);
      const what = `CPU per request, Forebay : ${peer.name}`;
      rows.push(ratioRow(comparison, 'cpu_us_per_request', { what, bar: BARS.get(peer) }));
    }
    const local = await comparePairs(context, side(HELLO), side(LOCAL), HELLO);
    rows.push(ratioRow(local, 'cpu_us_per_request', { what: 'CPU per request, script : /local in the same server' }));
    return { comparisons: [...comparisons, local], rows, skipped };
  },
};
