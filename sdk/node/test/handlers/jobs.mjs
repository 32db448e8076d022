import { messages } from '../../dist/index.js';

let started = 0;
export const onStart = () => void started++;

export default messages({
  add: ({ a, b }) => a + b,
  started: () => started,
  parts: async (count, ctx) => {
    for (let part = 0; part < count; part++) await ctx.send({ part });
    return new Date(0);
  },
  throws: () => {
    throw Object.assign(new RangeError('too far'), { code: 'E_FAR' });
  },
});
