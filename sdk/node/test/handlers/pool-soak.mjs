// The handler of the soak test: does what the message says, and replies with the message's number.
export default async function soak({ number, what, ms = 0, bytes = 0 }, ctx) {
  if (what === 'now') return { number };
  if (what === 'bytes') return { number, bytes: new Uint8Array(bytes).fill(number) };
  if (what === 'waits') await new Promise((resolve) => setTimeout(resolve, ms));
  if (what === 'busy') for (const end = performance.now() + ms; performance.now() < end; );
  if (what === 'parts') for (let part = 0; part < 5; part++) await ctx.send({ number, part, text: 'x'.repeat(bytes) });
  if (what === 'throws') throw new Error(`thrown ${number}`);
  if (what === 'exits') process.exit(7);
  if (what === 'never') await new Promise(() => {});
  if (what === 'heeds') await new Promise((_, reject) => {
    const stop = () => reject(ctx.signal.reason);
    if (ctx.signal.aborted) stop();
    ctx.signal.addEventListener('abort', stop);
  });
  if (what === 'blocks') for (;;);
  return { number };
}

/** The same synchronously, without a promise. */
export const direct = ({ number }) => ({ number });
