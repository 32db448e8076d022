/** Module hooks of Node (`module.registerHooks`), which run in the importing thread. */
import type { LoadHookSync, ResolveHookSync } from 'node:module';
import { fileURLToPath } from 'node:url';
import { providedUrl } from './install.js';
import { beforeImport } from './server-import.js';
import { isTypeScript, strip } from './strip.js';

export const resolve: ResolveHookSync = (specifier, context, next) => {
  beforeImport(specifier);
  const url = providedUrl(specifier);
  return url === undefined ? next(specifier, context) : { url, format: 'module', shortCircuit: true };
};

/** The file loaded last: if Node has just refused to parse one, it is this. */
export let lastLoaded = '';

export const load: LoadHookSync = (url, context, next) => {
  const path = url.startsWith('file:') ? fileURLToPath(url) : '';
  if (path !== '') lastLoaded = path;
  if (!isTypeScript(path)) return next(url, context);
  return { format: 'module', source: strip(path), shortCircuit: true };
};
