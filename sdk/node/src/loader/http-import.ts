/** Tells when `node:http` and `node:https` are first imported. */
export const HTTP_MODULES = ['node:http', 'node:https'] as const;
type HttpModule = (typeof HTTP_MODULES)[number];

let onImport: ((name: HttpModule) => void) | null = null;
const imported = new Set<HttpModule>();

/** Has `run` called with the name of each of the two before it is imported for the first time. */
export function onHttpImport(run: (name: HttpModule) => void): void {
  onImport = run;
}

/** Call with each specifier that is to be resolved. */
export function beforeImport(specifier: string): void {
  if (onImport === null) return;
  const name = HTTP_MODULES.find((module) => specifier === module || specifier === module.slice('node:'.length));
  if (name === undefined || imported.has(name)) return;
  imported.add(name);
  onImport(name);
}
