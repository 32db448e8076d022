// A request handler for both servers and pools.
import { router } from '../../dist/index.js';

const app = router();
app.post('/double', async (request) => ({ width: (await request.json()).width * 2 }));
export default app;
