/** Imports the peers, which are not part of this package but installed in a folder of the user's. */
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Plan } from './plan.js';

/** The versions behind the published figures; bench/peers/package.json pins the same. */
export const PINNED = {
  'qoper8-cp': '5.3.1',
  'qoper8-wt': '6.0.5',
  piscina: '5.3.2',
  tinypool: '2.2.0',
  workerpool: '10.0.3',
} as const;

export type PeerName = keyof typeof PINNED;

/** An imported package. */
export interface Peer {
  readonly version: string;
  /** The URL of the file that was imported. */
  readonly entry: string;
  readonly module: Record<string, unknown>;
}

/** Imports a peer from `plan.packages` or a folder above it. @throws Error that says how to install it. */
export async function importPeer(name: PeerName, plan: Plan): Promise<Peer> {
  const start = plan.packages ?? process.cwd();
  const folder = findPackage(name, start);
  if (folder === null) {
    throw new Error(`${name} is not installed in ${start}: npm install --prefix ${start} ${name}@${PINNED[name]}`);
  }
  const manifest: Manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const entry = pathToFileURL(join(folder, entryOf(manifest))).href;
  const module = (await import(entry)) as Record<string, unknown>;
  return { version: manifest.version, entry, module };
}

interface Manifest {
  readonly version: string;
  readonly main?: string;
  readonly exports?: unknown;
}

function findPackage(name: string, start: string): string | null {
  for (let folder = start; ; folder = dirname(folder)) {
    const found = join(folder, 'node_modules', name);
    if (existsSync(join(found, 'package.json'))) return found;
    if (dirname(folder) === folder) return null;
  }
}

/**
 * The file that `import` would load. Node resolves names relative to the importing file, but the peers are installed elsewhere; so this
 * implements as much of the rules for `exports` as the peers use.
 */
function entryOf(manifest: Manifest): string {
  let found: unknown = manifest.exports;
  while (typeof found === 'object' && found !== null) {
    const conditions = found as Record<string, unknown>;
    found = conditions['.'] ?? conditions['import'] ?? conditions['default'];
  }
  return typeof found === 'string' ? found : (manifest.main ?? 'index.js');
}

/** The export `name` of a module, or that member of its default export (CommonJS). */
export function exported(module: Record<string, unknown>, name: string): unknown {
  const inner = module['default'] as Record<string, unknown> | undefined;
  return module[name] ?? inner?.[name];
}
