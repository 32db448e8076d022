// One controller, whatever runs it and whatever it speaks.
import { execFileSync } from 'node:child_process';
import { HttpError, json, reply, router } from 'forebay';

const app = router();
app.get('/:way/hello/:name', ({ params, query }) => ({ hello: params.name, query: [...query] }));
app.get('/:way/text', () => 'two\nlines \u00fc');
app.get('/:way/none', () => null);
app.get('/:way/html', () => reply('<p>\u20ac</p>', { headers: { 'content-type': 'text/html; charset=utf-8' } }));
app.get('/:way/headers', () => json([1], { status: 201, headers: { 'x-a': ['1', '2'], location: '/x' } }));
app.get('/:way/pretty', () => reply('{\n "a": 1\n}', { headers: { 'content-type': 'application/json' } }));
app.get('/:way/missing', () => {
  throw new HttpError(404, 'there is none');
});
app.get('/:way/throw', () => {
  throw new Error('on purpose');
});
app.get('/:way/pieces', () => reply(pieces(), { headers: { 'content-type': 'text/plain' } }));
app.post('/:way/echo', async (request) => reply(await request.bytes(), { headers: { 'content-type': 'application/json' } }));
app.get('/:way/print', () => {
  console.log('by the console');
  process.stdout.write('by the stream\n');
  return 'printed';
});
// What has the descriptor itself cannot be diverted.
app.get('/:way/stray', () => {
  execFileSync('/bin/sh', ['-c', 'echo a stray line; printf "and a half"'], { stdio: ['ignore', process.env.FOREBAY_LINK_FD ? 2 : 1, 2] });
  return 'strayed';
});
app.get('/:way/log', (_, { log }) => {
  log.warn('told to the log', { at: 7 });
  return 'logged';
});
app.get('/:way/bytes', () => Uint8Array.of(0, 255));

async function* pieces() {
  for (let piece = 0; piece < 3; piece++) {
    await new Promise((resolve) => setTimeout(resolve, 2));
    yield `${piece} `;
  }
}

export default app;
export const onStop = () => process.stderr.write('stopped in order\n');
