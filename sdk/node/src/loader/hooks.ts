/** Module hooks of Node (`module.registerHooks`), which run in the importing thread. */
import type { LoadHookSync, ResolveHookSync } from 'node:module';
import { fileURLToPath } from 'node:url';
import { providedUrl } from './install.js';
import { beforeEvaluation, beforeImport } from './first-use.js';
import { isTypeScript, strip } from './strip.js';

export const resolve: ResolveHookSync = (specifier, context, next) => {
  beforeImport(specifier);
  const url = providedUrl(specifier);
  return url === undefined ? next(specifier, context) : { url, format: 'module', shortCircuit: true };
};

/** The URL of the folder of this package's modules. */
const PACKAGE = new URL('..', import.meta.url).href;

/** The file loaded last: if Node has just refused to parse one, it is this. */
export let lastLoaded = '';

export const load: LoadHookSync = (url, context, next) => {
  const path = url.startsWith('file:') ? fileURLToPath(url) : '';
  if (path !== '') lastLoaded = path;
  const loaded = isTypeScript(path) ? ({ format: 'module', source: strip(path), shortCircuit: true } as const) : next(url, context);
  if (path !== '' && loaded.source != null && !url.startsWith(PACKAGE)) beforeEvaluation(loaded.source);
  return loaded;
};
