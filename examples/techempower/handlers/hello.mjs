// The two tests without a database. Each answer is made anew: nothing is kept from one request to the next.
import { router } from 'forebay';

const app = router();
app.get('/json', () => ({ message: 'Hello, World!' }));
app.get('/plaintext', () => 'Hello, World!');

export default app;
