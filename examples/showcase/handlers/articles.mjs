// Records by kind. One file, everywhere it can run: inside the server (/e1), in a pool of Node (/n1) or of Bun (/b1), and as a child that is
// spoken to on standard input and output in lines of JSON (/v1), in frames (/f1) and in the messages of WABuR (/w1). All of them read and
// write the same store.
import { router } from 'forebay';
import { rest } from 'forebay/records';

const app = router();
const kinds = { Article: true, Entry: true };

app.get('/e1/helloworld', () => ({ hello: 'world' }));
for (const prefix of ['/e1', '/n1', '/b1', '/v1', '/f1', '/w1']) app.all(`${prefix}/*`, rest({ kinds, prefix }));

export default app;
