/**
 * Lets handler files import `forebay` and `forebay/testing` without installing anything, and load `.ts` and `.mts`. The
 * modules they get are the very ones this worker runs, so that `instanceof HttpError` holds.
 */
import { fileURLToPath } from 'node:url';

/** What handlers may import, relative to this folder. */
const PROVIDED: Readonly<Record<string, string>> = {
  forebay: '../index.js',
  'forebay/testing': '../testing.js',
};

/** The part of Bun's plugin interface used here. */
declare const Bun: {
  plugin(plugin: {
    name: string;
    setup(build: {
      module(specifier: string, load: () => { exports: object; loader: 'object' }): void;
      onLoad(filter: { filter: RegExp }, load: (file: { path: string }) => { contents: string; loader: 'js' }): void;
    }): void;
  }): void;
};

/** Where `specifier` is, or undefined when it is not ours. */
export function providedUrl(specifier: string): string | undefined {
  const file = Object.hasOwn(PROVIDED, specifier) ? PROVIDED[specifier] : undefined;
  return file === undefined ? undefined : new URL(file, import.meta.url).href;
}

/** Installs the resolver in the way this runtime can. Handlers may be imported once it has returned. */
export async function installResolver(): Promise<void> {
  if (process.versions['bun'] === undefined) await installNode();
  else await installBun();
}

async function installNode(): Promise<void> {
  const module = await import('node:module');
  if (typeof module.registerHooks === 'function') {
    const { load, resolve } = await import('./hooks-sync.js');
    module.registerHooks({ load, resolve });
    return;
  }
  // Node 20: hooks run on a thread of their own, and do not see `require`.
  module.register('./hooks-async.js', import.meta.url);
  const loader = module.Module as unknown as { _resolveFilename(specifier: string, ...rest: unknown[]): string };
  const original = loader._resolveFilename;
  loader._resolveFilename = function resolveFilename(specifier, ...rest) {
    const url = providedUrl(specifier);
    return url === undefined ? original.call(this, specifier, ...rest) : fileURLToPath(url);
  };
}

async function installBun(): Promise<void> {
  const [index, testing, { isTypeScript, strip }] = await Promise.all([
    import('../index.js'),
    import('../testing.js'),
    import('./strip.js'),
  ]);
  const modules: Record<string, object> = { forebay: index, 'forebay/testing': testing };
  Bun.plugin({
    name: 'forebay',
    setup(build) {
      for (const [specifier, exports] of Object.entries(modules)) {
        build.module(specifier, () => ({ exports, loader: 'object' }));
      }
      build.onLoad({ filter: /^(?!.*\/node_modules\/).*\.m?ts$/ }, ({ path }) => ({
        contents: isTypeScript(path) ? strip(path) : '',
        loader: 'js',
      }));
    },
  });
}
