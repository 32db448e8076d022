// The smallest handler.
import { router } from 'forebay';

const app = router();
app.get('/:runtime/helloworld', () => ({ hello: 'world' }));

export default app;
