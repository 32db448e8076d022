/** Replaces `store/addon.ts` in scripts: operations on the server's own store. */
import type { StoreError } from '../store/error.js';
import type { NativeStore } from '../store/native.js';
import type { Bytes } from '../wire.js';
import { Buffer } from './buffer.js';
import { host } from './host.js';

/** Memory shared with the server. */
export const area = Buffer.from(host.area) as unknown as Bytes;

/** Opens the server's store. */
export function openStore(errors: typeof StoreError): NativeStore {
  return host.openStore(errors);
}
