// The handlers called by bench/worker.mjs.
import { json, router } from 'forebay';

const app = router();
app.get('/helloworld', () => ({ hello: 'world' }));
app.get('/async', async () => ({ hello: 'world' }));
app.get('/reply', () => json({ hello: 'world' }, { headers: { 'cache-control': 'no-store' } }));
app.get('/users/:id', ({ params }) => ({ id: params.id }));
app.get('/headers', ({ headers }) => ({ agent: headers.get('user-agent') }));
export default app;
