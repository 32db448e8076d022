// Notes that visitors leave. What the server cannot know is checked here: where a change comes from, and what it may contain.
import { HttpError, json, router, store } from 'forebay';

// Older ones are deleted.
const NOTES_MAX = 100;
const CHARS_MAX = 200;

const app = router();

app.get('/api/notes', () => Object.values(store.get('Note') ?? {}));

app.post('/api/notes', async (request) => {
  // A browser says whose page has sent this; other programs say nothing.
  if (!['same-origin', 'none', null].includes(request.headers.get('sec-fetch-site'))) {
    throw new HttpError(403, 'only pages of this site may leave notes');
  }
  if (request.headers.get('content-type') !== 'application/json') {
    throw new HttpError(415, 'a note is JSON');
  }
  const { text } = (await request.json()) ?? {};
  if (typeof text !== 'string' || text.length === 0 || text.length > CHARS_MAX) {
    throw new HttpError(422, `text has 1 to ${CHARS_MAX} characters`);
  }
  store.transaction(() => {
    const number = store.node('Counter', 'note').increment();
    store.set('Note', number, { text });
    store.delete('Note', number - NOTES_MAX);
  });
  return json({ text }, { status: 201 });
});

export default app;
