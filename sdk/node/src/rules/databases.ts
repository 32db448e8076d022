/**
 * The globals `store` and `sql` of rules, within the limits of `allow`. They hold no state of a run, so they can be frozen with the other
 * globals.
 */
import { area, openStore } from '../script/addon.js';
import { host } from '../script/host.js';
import { adapted } from './data/client-calls.js';
import * as copies from '../sql/copy.js';
import * as cursors from '../sql/cursor.js';
import { databaseOf, type Database } from '../sql/database.js';
import { SqlError } from '../sql/error.js';
import { StoreError } from '../store/error.js';
import { StoreNode } from '../store/node.js';
import { takePlace, uses } from '../store/path.js';
import * as queries from '../store/query.js';
import { Store } from '../store/store.js';

/** The value of `uses` when the store's memory was last wiped. */
let usesWiped = uses;

/** Shared by all runs of the engine; the server does not allow it to be closed. */
export const store = new Store(() => ({ native: openStore(StoreError), store, count: 1, closed() {} }));

/** A database whose promises rules must await. */
function watched(name: string): Database {
  const database = databaseOf(name);
  const methods = Object.entries(database).map(([key, method]) => [key, adapted(`sql.${name}.${key}`, method as never, false)]);
  return Object.assign(adapted(`sql.${name}`, database as never, false) as Database, Object.fromEntries(methods));
}

const known: Record<string, Database> = Object.create(null) as Record<string, Database>;
for (const name of host.databases()) known[name] = watched(name);

/**
 * The database of `[sql.NAME]`. Any name yields a database; statements on one that may not be accessed fail with an error that says why.
 */
export const sql: Readonly<Record<string, Database>> = new Proxy(known, {
  get: (_, name) => (typeof name === 'string' ? (known[name] ?? watched(name)) : undefined),
});

/** Objects that no global refers to but that runs can obtain. */
export const reachable: unknown[] = [SqlError, StoreError, StoreNode, ...Object.values(cursors), ...Object.values(copies), ...Object.values(queries)];
// Shared by all runs as well.
if (host.hasStore()) reachable.push(store.native);

/** Wipes data of the run from the store's memory. */
export function clean(): void {
  if (uses === usesWiped) return;
  takePlace();
  area.fill(0);
  usesWiped = uses;
}
