// Controllers of records: the usual one, and one with ways of its own. The same file runs wherever handlers run.
import { HttpError, reply, router } from 'forebay';
import { rest } from 'forebay/records';

const Note = {
  read: (call) => (call.isList ? { list: call.query } : call.usual()),
  async create(call) {
    if (call.data.text === undefined) throw new HttpError(422, 'a note has a text');
    await null;
    return call.usual({ ...call.data, length: call.data.text.length });
  },
  update: (call) => call.usual(),
  handle: ({ request, path }) => ({ handled: request.method, path }),
};

// What is read as usual, with headers of its own.
const Memo = {
  create: true,
  read: (call) => reply(call.usual(), { headers: call.request.query.has('typed') ? { 'content-type': 'application/x-memo' } : { 'x-memo': 'yes' } }),
};

const app = router();
const kinds = { Article: true, Note, Memo };
app.all('/v1/*', rest({ kinds }));
app.all('/compat/*', rest({ kinds, prefix: '/compat', compat: 'wabur' }));
export default app;
