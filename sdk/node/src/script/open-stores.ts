/** Replaces `store/open-stores.ts` in scripts, which have only the server's store. */
import { StoreError } from '../store/error.js';
import type { OpenOptions } from '../store/open-stores.js';
import { Store } from '../store/store.js';
import { openStore } from './addon.js';

export function open(_path: string, _options?: OpenOptions): Store {
  throw new StoreError('unsupported', 'a script opens no stores: `store` of forebay is the one of the server');
}

export const store: Store = new Store(() => ({ native: openStore(StoreError), store, count: 1, closed() {} }));

export function hasStore(): boolean {
  return true;
}
