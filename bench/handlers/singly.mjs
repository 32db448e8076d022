// Rows by statements that wait for one another, as with a blocking driver without pipelining.
import { router } from 'forebay';
import { sql } from 'forebay/sql';

const READ = 'select id, randomNumber as "randomNumber" from world where id = $1';
const { blocking } = sql;

const app = router();
app.get('/singly', async ({ query }) => {
  const worlds = [];
  for (let count = Number(query.get('queries')); count > 0; count--) {
    worlds.push(await blocking.row(READ, [1 + Math.floor(Math.random() * 10_000)]));
  }
  return worlds;
});

export default app;
