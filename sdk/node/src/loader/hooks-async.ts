/** Module hooks for Node 20 (`module.register`), which run in a separate thread. */
import type { LoadHook, ResolveHook } from 'node:module';
import { fileURLToPath } from 'node:url';
import { providedUrl } from './install.js';
import { isTypeScript, strip } from './strip.js';

export const resolve: ResolveHook = async (specifier, context, next) => {
  const url = providedUrl(specifier);
  return url === undefined ? next(specifier, context) : { url, format: 'module', shortCircuit: true };
};

export const load: LoadHook = async (url, context, next) => {
  const path = url.startsWith('file:') ? fileURLToPath(url) : '';
  if (!isTypeScript(path)) return next(url, context);
  return { format: 'module', source: strip(path), shortCircuit: true };
};
