/** The store of handlers under test, in a temporary folder. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { provideStore } from './store/open-stores.js';

/** The folder of all stores of this process, removed when it exits. */
let folder: string | undefined;
let count = 0;
let removeCurrent = () => {};

/**
 * Provides an empty store as the server's, in place of the one provided before; does nothing if the environment names the store, or that
 * there is none.
 *
 * @returns removes this store; without effect if another has taken its place.
 */
export function freshStore(): () => void {
  removeCurrent();
  const { env } = process;
  if (env['FOREBAY_STORE'] !== undefined || env['FOREBAY_STORE_MODE'] !== undefined) return () => {};
  folder ??= temporaryFolder();
  const path = join(folder, String(++count));
  const close = provideStore(path);
  const remove = () => {
    if (removeCurrent !== remove) return;
    removeCurrent = () => {};
    close();
    rmSync(path, { recursive: true, force: true });
  };
  return (removeCurrent = remove);
}

function temporaryFolder(): string {
  const made = mkdtempSync(join(tmpdir(), 'forebay-test-'));
  process.on('exit', () => {
    removeCurrent();
    rmSync(made, { recursive: true, force: true });
  });
  return made;
}
