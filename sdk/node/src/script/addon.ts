/** In the place of `store/addon.ts` in scripts: the operations of the server's own store. */
import type { StoreError } from '../store/error.js';
import type { NativeStore } from '../store/native.js';
import type { Bytes } from '../wire.js';
import { Buffer } from './buffer.js';
import { host } from './host.js';

/** The memory that is shared with the server. */
export const area = Buffer.from(host.area) as unknown as Bytes;

/** Opens the store of the server. */
export function openStore(errors: typeof StoreError): NativeStore {
  return host.openStore(errors);
}
