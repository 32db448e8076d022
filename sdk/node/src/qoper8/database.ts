/** The store for handlers written for mg-dbx-napi and glsdb: `this.mgdbx`, `this.use` and `this.glsdb`. */
import { glsDB } from '../glsdb/index.js';
import { mclass, mcursor, mglobal, server, type Key } from '../mgdbx/index.js';
import type { HandlerThis } from './self.js';
import type { DatabaseOption } from './setup.js';

/** Opens the database; returns the function that closes it. @throws if there is none to open. */
export function openDatabase(self: HandlerThis, { type, open }: DatabaseOption): () => void {
  const db = new server();
  if (db.open(open) !== '1') throw new Error(`mgdbx: the database cannot be opened: ${db.geterrormessage()}`);
  self['mgdbx'] = { db, mglobal, mclass, mcursor };
  const use = (global: string, ...keys: Key[]): mglobal => {
    const key = [global, ...keys].join('\0');
    let entry = self.cache.get(key) as { container: mglobal; at: number } | undefined;
    if (entry === undefined) {
      entry = { container: new mglobal(db, global, ...keys), at: Date.now() };
      self.cache.set(key, entry);
    }
    return entry.container;
  };
  self['use'] = use;
  self['glsdb'] = new glsDB({ type, db, use });
  return () => void db.close();
}
