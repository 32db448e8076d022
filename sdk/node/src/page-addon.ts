/** Functions of the native addon for shared pages. */
import { loadAddon } from './platform.js';

export interface PageAddon {
  /** Maps the page that this process shares with its server, as a worker. */
  mapPage(fd: number): ArrayBuffer;
  ring(fd: number): void;
  /** Creates a page; returns its descriptor. */
  createPage(): number;
  /** Maps the page of a worker, as its pool. */
  viewPage(fd: number): ArrayBuffer;
  /** Creates two connected sockets. */
  socketPair(): [ours: number, theirs: number];
  /** Makes the kernel kill this process when the thread that started it ends. */
  dieWithParent(): void;
}

/** Loads the addon. @throws if it was not built for this system. */
export function pageAddon(): PageAddon {
  return loadAddon() as PageAddon;
}
