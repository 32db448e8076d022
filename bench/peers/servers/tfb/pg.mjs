// The package `pg`: named statements are prepared, and a connection runs one statement at a time.
import pg from 'pg';

export async function connect(url, connections) {
  const pool = new pg.Pool({ connectionString: url, max: connections });
  const run = async (name, text, values) => (await pool.query({ name, text, values })).rows;
  return {
    world: async (id) => (await run('world', 'select id, randomnumber as "randomNumber" from world where id = $1', [id]))[0],
    update: (ids, numbers) =>
      run(
        'update',
        'update world as w set randomnumber = v.number from unnest($1::int4[], $2::int4[]) as v (id, number) where w.id = v.id',
        [ids, numbers],
      ),
    fortunes: () => run('fortunes', 'select id, message from fortune'),
  };
}
