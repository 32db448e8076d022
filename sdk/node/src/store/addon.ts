/**
 * The native addon, and the memory through which paths and values are passed to its operations. Scripts replace this module with
 * their own.
 */
import { Buffer } from 'node:buffer';
import { loadAddon } from '../platform.js';
import type { Bytes } from '../wire.js';
import type { StoreError } from './error.js';
import type { NativeStore } from './native.js';

interface Addon {
  readonly area: ArrayBuffer;
  openStore(
    error: typeof StoreError,
    path: string,
    create: 0 | 1,
    readOnly: 0 | 1,
    lead: 0 | 1,
    mapMax: number,
    readersMax: number,
    valueBytesMax: number,
    durability: number,
    flushInterval: number,
    readerAgeMax: number,
  ): NativeStore;
}

/** Memory shared with the addon; empty until a store is opened. */
export let area = Buffer.alloc(0) as Bytes;

let addon: Addon | undefined;

/** Loads the addon when the first store is opened, so that handlers without a store do not pay for it. */
export function native(): Addon {
  if (addon === undefined) {
    const loaded = loadAddon() as Addon;
    area = Buffer.from(loaded.area) as Bytes;
    addon = loaded;
  }
  return addon;
}
