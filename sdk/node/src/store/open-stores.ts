/** Opens stores in this process, and provides the store of the server. Scripts replace this module with their own. */
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { native } from './addon.js';
import { StoreError } from './error.js';
import type { NativeStore } from './native.js';
import { Store, durabilityNumber, type Durability, type Opening } from './store.js';

/**
 * Options for opening a store. If this process already has the store open, or the server configures it, options that are left out (and
 * numbers that are not above 0) keep the existing value, and different ones are rejected (`open_already`).
 */
export interface OpenOptions {
  /** Create the store if it does not exist; true by default, except with `readOnly`. */
  create?: boolean | undefined;
  /** Reject all writes (`read_only`); false by default. */
  readOnly?: boolean | undefined;
  /** The default durability of commits; `group` if omitted. */
  durability?: Durability | undefined;
  /** Maximum size of the file in bytes (`full`); 64 GiB by default. */
  mapMax?: number | undefined;
  /** Maximum number of concurrent snapshots, over all processes (`too_many_readers`); 1024 by default. */
  readersMax?: number | undefined;
  /** Longest value or document, in bytes of JSON (`value_too_long`); 64 MiB by default, at most 1 GiB. */
  valueBytesMax?: number | undefined;
  /** Longest time in milliseconds until a relaxed commit is on the disk; 20 by default, at most a day. */
  flushInterval?: number | undefined;
  /** Longest time in milliseconds that a snapshot may be used (`snapshot_too_old`); 60,000 by default, at most a day. */
  readerAgeMax?: number | undefined;
}

/** Stores opened by this thread, by folder. Two for the same folder would deadlock on each other's transactions. */
const openStores = new Map<string, Opening>();

/** Counts another opening of a store that is open already, or registers a new one. */
function share(native: NativeStore, store: Store): Opening {
  const found = openStores.get(native.path);
  if (found === undefined) {
    const { path } = native;
    const opening: Opening = {
      native,
      store,
      count: 1,
      closed() {
        if (openStores.get(path) === opening) openStores.delete(path);
      },
    };
    openStores.set(path, opening);
    return opening;
  }
  native.close();
  found.count++;
  return found;
}

/**
 * Opens the store in a folder, or in the database whose URL the path is (`postgres://user:password@host/database`), and creates it if
 * necessary. Opening the same again returns the same store, and fails with `open_already` if the options differ.
 *
 * Handlers need not open anything: `import { store } from 'forebay'` is the store of the server; this function returns the same for its
 * folder.
 */
export function open(path: string, options: OpenOptions = {}): Store {
  if (typeof path !== 'string' || path === '') throw new StoreError('file', 'the path of a store is a string that is not empty');
  const readOnly = options.readOnly === true;
  const create = options.create ?? !readOnly;
  const isServers = isServersFolder(path);
  if (isServers) useServers(path, create);
  const native = openNative(path, { ...options, create }, !readOnly && !isServers);
  const opening: Opening = share(native, new Store(() => opening));
  return opening.store;
}

/** The folder that {@link provideStore} names in place of the environment: no server creates the store in it, or leads it. */
let providedFolder: string | undefined;

/**
 * The server's store, opened on first use; after it was closed, calling `open` with its folder opens it again. The server passes it in
 * the environment: `FOREBAY_STORE` (a folder, or the URL of a database), `FOREBAY_STORE_MODE` (`rw`, `ro` or `none`), and from its configuration
 * `FOREBAY_STORE_DURABILITY`, `FOREBAY_STORE_VALUE_BYTES_MAX` and `FOREBAY_STORE_READER_AGE_MAX_MS`.
 */
export const store: Store = new Store(() => {
  const { env } = process;
  const path = serversFolder();
  const isProvided = providedFolder !== undefined;
  const mode = env['FOREBAY_STORE_MODE'] ?? 'rw';
  if (path === '' || mode === 'none') {
    throw new StoreError('no_store', 'this process was given no store: `open(path)` of forebay/store opens one without the server');
  }
  const options: OpenOptions = {
    create: isProvided,
    readOnly: mode !== 'rw',
    durability: isProvided ? 'relaxed' : (env['FOREBAY_STORE_DURABILITY'] as Durability | undefined),
    valueBytesMax: Number(env['FOREBAY_STORE_VALUE_BYTES_MAX'] ?? 0),
    readerAgeMax: Number(env['FOREBAY_STORE_READER_AGE_MAX_MS'] ?? 0),
  };
  return share(openNative(path, options, isProvided), store);
});

/**
 * Makes a folder that of {@link store} in a process without a server: the first use creates the store there.
 *
 * @returns closes the store, which has no folder from then on.
 */
export function provideStore(path: string): () => void {
  providedFolder = path;
  return () => {
    store.reset();
    providedFolder = undefined;
  };
}

/** The folder of the server's store, or an empty text. */
function serversFolder(): string {
  return providedFolder ?? process.env['FOREBAY_STORE'] ?? '';
}

/** Whether this process can open the server's store: the server provides one, and the addon can be loaded. */
export function hasStore(): boolean {
  if (serversFolder() === '' || process.env['FOREBAY_STORE_MODE'] === 'none') return false;
  try {
    native();
    return true;
  } catch {
    return false;
  }
}

/** Opens the server's store with the server's settings, so that different options are rejected; creates it if allowed. */
function useServers(path: string, create: boolean): void {
  try {
    store.use();
  } catch (error) {
    if (!create || !(error instanceof StoreError) || error.code !== 'absent') throw error;
    openNative(path, { create }, false).close();
    store.use();
  }
}

/** Whether a path leads to the folder of the server's store, however it is spelled. The server alone maintains that store. */
function isServersFolder(path: string): boolean {
  const servers = serversFolder();
  return servers !== '' && realPath(servers) === realPath(path);
}

function realPath(path: string): string {
  // The URL of a database.
  if (/^postgres(ql)?:\/\//.test(path)) return path;
  try {
    return realpathSync(path);
  } catch {
    // The folder does not exist yet.
    return resolve(path);
  }
}

function openNative(path: string, options: OpenOptions, lead: boolean): NativeStore {
  const bit = (value: boolean | undefined) => (value === true ? 1 : 0);
  return native().openStore(
    StoreError,
    path,
    bit(options.create),
    bit(options.readOnly),
    bit(lead),
    options.mapMax ?? 0,
    options.readersMax ?? 0,
    options.valueBytesMax ?? 0,
    durabilityNumber(options.durability),
    options.flushInterval ?? 0,
    options.readerAgeMax ?? 0,
  );
}
