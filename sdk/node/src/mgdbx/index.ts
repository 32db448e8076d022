/**
 * The interface of mg-dbx-napi on top of the store: existing programs only change their import.
 *
 * ```js
 * import { server, mglobal } from 'forebay/mg-dbx';
 *
 * const db = new server();
 * db.open({ type: 'Forebay', path: 'data' });    // in a worker, `db.open()` is the server's store
 * const person = new mglobal(db, 'Person', 'data');
 * person.set(1, 'firstName', 'Ada');
 * person.get(1, 'firstName');                    // 'Ada'
 * ```
 *
 * Everything is read as text. Numbers and booleans that are written keep their type for readers through other interfaces.
 *
 * @module
 */
export { server, type Callback, type Key, type ServerOptions } from './server.js';
export { mglobal, type ChildNodesOptions } from './mglobal.js';
export { mcursor, type CursorOptions, type CursorQuery } from './mcursor.js';
export { mclass } from './mclass.js';
