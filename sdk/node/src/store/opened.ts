/** Opens stores in this process, and has the one of the server at hand. The engine inside the server brings a module in the place of this one. */
import { realpathSync } from 'node:fs';
import { resolve } from 'node:path';
import { native } from './addon.js';
import { StoreError } from './error.js';
import type { NativeStore } from './native.js';
import { Store, durabilityNumber, type Durability, type Opening } from './store.js';

/**
 * How a store is opened. What is left out, and a number that is not above 0, is as it is where this process has the store open already, or
 * where the server has settled it; what is said otherwise is refused there (`open_already`).
 */
export interface OpenOptions {
  /** Make a new store where there is none; true when left out, but for `readOnly`. */
  create?: boolean | undefined;
  /** Refuse every write (`read_only`); false when left out. */
  readOnly?: boolean | undefined;
  /** What a commit waits for that does not say; `group` when left out. */
  durability?: Durability | undefined;
  /** How far the file may grow, in bytes (`full`); 64 GiB when left out. */
  mapMax?: number | undefined;
  /** Most snapshots at the same time, over all processes (`too_many_readers`); 1024 when left out. */
  readersMax?: number | undefined;
  /** Longest value or document, in bytes of JSON (`value_too_long`); 64 MiB when left out, 1 GiB at most. */
  valueBytesMax?: number | undefined;
  /** Longest time in milliseconds that a relaxed commit is not on the disk; 20 when left out, a day at most. */
  flushInterval?: number | undefined;
  /** Longest time in milliseconds that one snapshot may be read from (`snapshot_too_old`); 60,000 when left out, a day at most. */
  readerAgeMax?: number | undefined;
}

/** The stores that this thread has open, by folder: two of one folder would wait for each other's transactions forever. */
const opened = new Map<string, Opening>();

/** One opening more of what `native` has open, or the first of a store. */
function share(native: NativeStore, store: Store): Opening {
  const found = opened.get(native.path);
  if (found === undefined) {
    const { path } = native;
    const opening: Opening = {
      native,
      store,
      count: 1,
      closed() {
        if (opened.get(path) === opening) opened.delete(path);
      },
    };
    opened.set(path, opening);
    return opening;
  }
  native.close();
  found.count++;
  return found;
}

/**
 * Opens the store in a folder, which is made when there is none. The same folder again gives the same store, and is refused with
 * `open_already` where the options say otherwise.
 *
 * Handlers need not open anything: `import { store } from 'forebay'` is the store of the server, and what this gives them for its folder.
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

/**
 * The store that the server names, opened when it is first used; one that was closed is open again when `open` is called with its folder.
 * The server names it with `FOREBAY_STORE`, a folder, `FOREBAY_STORE_MODE`, which is `rw`, `ro` or `none`, and what its configuration
 * settles: `FOREBAY_STORE_DURABILITY`, `FOREBAY_STORE_VALUE_BYTES_MAX` and `FOREBAY_STORE_READER_AGE_MAX_MS`.
 */
export const store: Store = new Store(() => {
  const { env } = process;
  const path = env['FOREBAY_STORE'];
  const mode = env['FOREBAY_STORE_MODE'] ?? 'rw';
  if (path === undefined || path === '' || mode === 'none') {
    throw new StoreError('no_store', 'this process was given no store: `open(path)` of forebay/store opens one without the server');
  }
  const options: OpenOptions = {
    create: false,
    readOnly: mode !== 'rw',
    durability: env['FOREBAY_STORE_DURABILITY'] as Durability | undefined,
    valueBytesMax: Number(env['FOREBAY_STORE_VALUE_BYTES_MAX'] ?? 0),
    readerAgeMax: Number(env['FOREBAY_STORE_READER_AGE_MAX_MS'] ?? 0),
  };
  return share(openNative(path, options, false), store);
});

/** Whether this process can open the server's store: it was given one, and the addon that opens stores is there. */
export function hasStore(): boolean {
  const { env } = process;
  if ((env['FOREBAY_STORE'] ?? '') === '' || env['FOREBAY_STORE_MODE'] === 'none') return false;
  try {
    native();
    return true;
  } catch {
    return false;
  }
}

/** Has the server's store open as the server has settled it, so that whatever else is wanted is refused; makes it where it may. */
function useServers(path: string, create: boolean): void {
  try {
    store.use();
  } catch (error) {
    if (!create || !(error instanceof StoreError) || error.code !== 'absent') throw error;
    openNative(path, { create }, false).close();
    store.use();
  }
}

/** Whether a folder is that of the server's store, however either is written: only the server leads that. */
function isServersFolder(path: string): boolean {
  const servers = process.env['FOREBAY_STORE'];
  return servers !== undefined && servers !== '' && realPath(servers) === realPath(path);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    // It is yet to be made.
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
