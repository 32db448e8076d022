/**
 * Lets handler files import `forebay` and its parts without installing them, and load `.ts` and `.mts` files. Handlers get the
 * same module instances that the worker uses, so that `instanceof HttpError` works.
 */

/** The modules that handlers may import, with their files relative to this folder. */
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
  'forebay/node-http': '../node-http/index.js',
  'forebay/sql': '../sql/index.js',
  'forebay/stdio': '../stdio/index.js',
  'forebay/mgweb': '../mgweb/index.js',
  'forebay/glsdb': '../glsdb/index.js',
  'forebay/mg-dbx': '../mgdbx/index.js',
};

/** The part of Bun's plugin API that is used here. */
declare const Bun: {
  plugin(plugin: {
    name: string;
    setup(build: {
      module(specifier: string, load: () => { exports: object; loader: 'object' }): void;
      onLoad(filter: { filter: RegExp }, load: (file: { path: string }) => { contents: string; loader: 'js' }): void;
    }): void;
  }): void;
};

/** The URL of one of our modules; undefined for any other specifier. */
export function providedUrl(specifier: string): string | undefined {
  const file = Object.hasOwn(PROVIDED, specifier) ? PROVIDED[specifier] : undefined;
  return file === undefined ? undefined : new URL(file, import.meta.url).href;
}

/** Installs the resolver in the way this runtime supports. Handlers may be imported once it has resolved. */
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
        // A plugin must provide the module synchronously. In Bun, `require` loads any module and returns the same instance as `import`.
        build.module(specifier, () => ({ exports: require(file) as object, loader: 'object' }));
      }
      build.onLoad({ filter: /^(?!.*\/node_modules\/).*\.m?ts$/ }, ({ path }) => ({
        contents: isTypeScript(path) ? strip(path) : '',
        loader: 'js',
      }));
    },
  });
}
