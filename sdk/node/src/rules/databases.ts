/** `store` and `sql` of rules, as far as they may be reached. Nothing of them is one run's, so that all of it can be closed with the globals. */
import { area, openStore } from '../script/addon.js';
import { host } from '../script/host.js';
import * as copies from '../sql/copy.js';
import * as cursors from '../sql/cursor.js';
import { databaseOf, type Database } from '../sql/database.js';
import { SqlError } from '../sql/error.js';
import { StoreError } from '../store/error.js';
import { StoreNode } from '../store/node.js';
import { takePlace, uses } from '../store/path.js';
import * as queries from '../store/query.js';
import { Store } from '../store/store.js';

/** How often the memory of the store had been used when it was last wiped. */
let usesWiped = uses;

/** The engine's own, for all its runs: the server refuses to close it. */
export const store = new Store(() => ({ native: openStore(StoreError), store, count: 1, closed() {} }));

const known: Record<string, Database> = Object.create(null) as Record<string, Database>;
for (const name of host.databases()) known[name] = databaseOf(name);

/** A database by the NAME of its `[sql.NAME]`. One that may not be reached is there, too: to ask it says why not. */
export const sql: Readonly<Record<string, Database>> = new Proxy(known, {
  get: (_, name) => (typeof name === 'string' ? (known[name] ?? databaseOf(name)) : undefined),
});

/** What runs meet of it without a global that leads there. */
export const besides: unknown[] = [SqlError, StoreError, StoreNode, ...Object.values(cursors), ...Object.values(copies), ...Object.values(queries)];
// It is shared by all runs, too.
if (host.hasStore()) besides.push(store.native);

/** Wipes what the run has written into the memory of the store. */
export function clean(): void {
  if (uses === usesWiped) return;
  takePlace();
  area.fill(0);
  usesWiped = uses;
}
