import { HttpError, json, router, store } from 'forebay';

export interface Note {
  text: string;
}

const app = router();

app.get('/notes/:id', ({ params }): Note => {
  const note = store.get<Note>('Note', params.id);
  if (note === undefined) throw new HttpError(404, `no note ${params.id}`);
  return note;
});

app.post('/notes', async (request) => {
  const body = await request.json<Partial<Note> | null>();
  if (typeof body?.text !== 'string') throw new HttpError(400, 'expected an object with a text');
  const note: Note = { text: body.text };
  const id = store.transaction(() => {
    const next = store.node('Note').increment();
    store.set('Note', next, note);
    return next;
  });
  return json({ id }, { status: 201, headers: { location: `/notes/${id}` } });
});

app.delete('/notes/:id', ({ params }) => {
  if (!store.delete('Note', params.id)) throw new HttpError(404, `no note ${params.id}`);
});

export default app;
