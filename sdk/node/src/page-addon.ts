/** What the addon does with pages. */
import { createRequire } from 'node:module';

export interface PageAddon {
  /** The page of this process, as a worker. */
  mapPage(fd: number): ArrayBuffer;
  ring(fd: number): void;
  /** A new page's descriptor. */
  createPage(): number;
  /** A page that is a worker's. */
  viewPage(fd: number): ArrayBuffer;
  /** Two connected sockets. */
  socketPair(): [ours: number, theirs: number];
  /** Has the kernel end this process with the thread that has started it. */
  dieWithParent(): void;
}

/** Loads the addon; throws where there is none for this system. */
export function pageAddon(): PageAddon {
  return createRequire(import.meta.url)('./forebay.node') as PageAddon;
}
