/** Checks the version of the runtime; `engines` in package.json has the same limits. */

/** Explains in a sentence why these `process.versions` are not supported; undefined if they are. */
export function unsupported(versions: Readonly<Record<string, string | undefined>>): string | undefined {
  const { bun, node } = versions;
  if (bun !== undefined) return isFrom(bun, 1, 2) ? undefined : `this is Bun ${bun}, and workers need Bun 1.2 or newer`;
  // From these versions on, `require` can load this package, which consists of ES modules, and `module.registerHooks` lets handlers import it.
  if (node === undefined || isFrom(node, 24, 0) || (node.startsWith('22.') && isFrom(node, 22, 15))) return undefined;
  return `this is Node ${node}, and workers need Node 22.15, 24 or newer`;
}

function isFrom(version: string, major: number, minor: number): boolean {
  const [foundMajor = 0, foundMinor = 0] = version.split('.').map(Number);
  return foundMajor > major || (foundMajor === major && foundMinor >= minor);
}
