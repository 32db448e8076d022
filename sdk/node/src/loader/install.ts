/**
 * Lets handler files import `forebay` and its parts without installing anything, and load `.ts` and `.mts`. The
 * modules they get are the very ones this worker runs, so that `instanceof HttpError` holds.
 */

/** What handlers may import, relative to this folder. */
const PROVIDED: Readonly<Record<string, string>> = {
  forebay: '../index.js',
  'forebay/testing': '../testing.js',
  'forebay/pool': '../pool/index.js',
  'forebay/pool/durable': '../pool/durable.js',
  'forebay/qoper8': '../qoper8/index.js',
  'forebay/qoper8/benchmark': '../qoper8/benchmark.js',
  'forebay/qoper8/fastify': '../qoper8/fastify.js',
  'forebay/qoper8/handlers': '../qoper8/handlers.js',
  'forebay/store': '../store/index.js',
  'forebay/records': '../records/index.js',
  'forebay/sql': '../sql/index.js',
  'forebay/stdio': '../stdio/index.js',
  'forebay/mgweb': '../mgweb/index.js',
  'forebay/glsdb': '../glsdb/index.js',
  'forebay/mg-dbx': '../mgdbx/index.js',
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
  const { registerHooks } = await import('node:module');
  const { load, resolve } = await import('./hooks.js');
  registerHooks({ load, resolve });
}

async function installBun(): Promise<void> {
  const { createRequire } = await import('node:module');
  const { isTypeScript, strip } = await import('./strip.js');
  const require = createRequire(import.meta.url);
  Bun.plugin({
    name: 'forebay',
    setup(build) {
      for (const [specifier, file] of Object.entries(PROVIDED)) {
        // A plugin's module must be there at once; in Bun, `require` takes any module, and gives the one that `import` gives.
        build.module(specifier, () => ({ exports: require(file) as object, loader: 'object' }));
      }
      build.onLoad({ filter: /^(?!.*\/node_modules\/).*\.m?ts$/ }, ({ path }) => ({
        contents: isTypeScript(path) ? strip(path) : '',
        loader: 'js',
      }));
    },
  });
}
