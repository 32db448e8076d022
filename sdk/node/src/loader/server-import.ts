/** Tells when the modules of Node with which applications start servers are first imported. */
export const SERVER_MODULES = ['node:http', 'node:https', 'node:cluster'] as const;
export type ServerModule = (typeof SERVER_MODULES)[number];

let onImport: ((name: ServerModule) => void) | null = null;
const imported = new Set<ServerModule>();

/** Has `run` called with the name of each of them before it is imported for the first time. */
export function onServerImport(run: (name: ServerModule) => void): void {
  onImport = run;
}

/** Call with each specifier that is to be resolved. */
export function beforeImport(specifier: string): void {
  if (onImport === null) return;
  const name = SERVER_MODULES.find((module) => specifier === module || specifier === module.slice('node:'.length));
  if (name === undefined || imported.has(name)) return;
  imported.add(name);
  onImport(name);
}
