// A handler of requests that a server and a pool can have.
import { router } from '../../dist/index.js';

const app = router();
app.post('/double', async (request) => ({ width: (await request.json()).width * 2 }));
export default app;
