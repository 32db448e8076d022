// Brings the database to the schema of this version: each file of a folder is run once, in the order of their names.
import { readFileSync, readdirSync } from 'node:fs';
import type { Database } from 'forebay/sql';

/** Any number that no other program uses for a lock of this database. */
const LOCK = 7_240_881;

/**
 * Runs what the database has not seen yet. All of it is one transaction, and of several workers that start at the same time one does it
 * while the others wait. Statements in a file are separated by `;` and an empty line.
 */
export async function migrate(database: Database, folder: URL): Promise<void> {
  const names = readdirSync(folder).filter((name) => name.endsWith('.sql')).sort();
  await database.tx(async (t) => {
    await t`select pg_advisory_xact_lock(${LOCK}::bigint)`;
    await t`create table if not exists migrations (name text primary key, at timestamptz not null default now())`;
    const done = new Set((await t`select name from migrations`).map(({ name }) => name));
    for (const name of names.filter((name) => !done.has(name))) {
      for (const statement of readFileSync(new URL(name, folder), 'utf8').trim().split(/;\n\n/)) await t.query(statement);
      await t`insert into migrations (name) values (${name})`;
    }
  });
}
