// Handlers as mg_web has them, unchanged but for the names of the imports: the store is Forebay's own, in this process.
import { store } from 'forebay';
import { Router } from 'forebay/mgweb';

const router = new Router();
router.register('mgw-router/glsdb');
router.register('mgw-router/mgdbx');

router.get('/mgweb/helloworld', () => ({ payload: { hello: 'world 123' } }));

// Two leaves, by the low-level interface. `ctx` is this worker's own and stays, so what is made once can be kept there.
router.get('/mgweb/userx/:userId', (request, ctx) => {
  const key = request.params.userId;
  ctx.person ??= new ctx.mgdbx.mglobal(ctx.mgdbx.db, 'Person');
  const firstName = ctx.person.get('data', key, 'firstName');
  const lastName = ctx.person.get('data', key, 'lastName');
  return { payload: { key, data: { firstName, lastName } } };
});

// The whole document.
router.get('/mgweb/user/:userId', (request, ctx) => {
  const key = request.params.userId;
  return { payload: { key, data: new ctx.glsdb.node('Person.data').$(key).document } };
});

router.post('/mgweb/save', (request, ctx) => {
  const { firstName, lastName } = request.body ?? {};
  if (typeof firstName !== 'string' || typeof lastName !== 'string') {
    return { payload: { error: 'firstName and lastName are needed' }, status: 422 };
  }
  // All of it or nothing: no number is used up without its person. Nobody needs to see it before the answer, so that many requests can
  // share one commit.
  const id = store.transaction(() => {
    const next = Number(new ctx.glsdb.node('Person.nextId').increment());
    new ctx.glsdb.node('Person.data').$(next).document = { firstName, lastName };
    return next;
  }, { commit: 'answer' });
  return { payload: { saved: true, id } };
});

export default router.handler();
