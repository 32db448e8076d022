// The package `postgres`: prepares statements automatically, and pipelines the statements of a connection.
import postgres from 'postgres';

export async function connect(url, connections) {
  const sql = postgres(url, { max: connections });
  return {
    world: async (id) => (await sql`select id, randomnumber as "randomNumber" from world where id = ${id}`)[0],
    update: (ids, numbers) =>
      sql`update world as w set randomnumber = v.number from unnest(${ids}::int4[], ${numbers}::int4[]) as v (id, number) where w.id = v.id`,
    fortunes: () => sql`select id, message from fortune`,
  };
}
