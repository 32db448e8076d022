/** Tells when an application first uses what few applications use and what takes milliseconds to prepare. */

/** The modules of Node with which applications start servers. */
export const SERVER_MODULES = ['node:http', 'node:https', 'node:cluster'] as const;
export type ServerModule = (typeof SERVER_MODULES)[number];

let onImport: ((name: ServerModule) => void) | null = null;
const imported = new Set<ServerModule>();
let onResponse: (() => void) | null = null;

/** Has `run` called with the name of each of {@link SERVER_MODULES} before it is imported for the first time. */
export function onServerImport(run: (name: ServerModule) => void): void {
  onImport = run;
}

/** Has `run` called before the first module is evaluated whose source names the global `Response`. */
export function onResponseUse(run: () => void): void {
  onResponse = run;
}

/** Call with each specifier that is to be resolved. */
export function beforeImport(specifier: string): void {
  if (onImport === null) return;
  const name = SERVER_MODULES.find((module) => specifier === module || specifier === module.slice('node:'.length));
  if (name === undefined || imported.has(name)) return;
  imported.add(name);
  onImport(name);
}

/** Call with the source of each module of the application before it is evaluated. */
export function beforeEvaluation(source: string | NodeJS.ArrayBufferView | ArrayBuffer): void {
  if (onResponse === null) return;
  const text = typeof source === 'string' ? source : new TextDecoder().decode(source);
  if (!/\bResponse\b/.test(text)) return;
  onResponse();
  onResponse = null;
}
