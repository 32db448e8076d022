/** What belongs to one system: the package of npm that has the server's binary and the native part. */
import { createRequire } from 'node:module';
import { VERSION } from './version.js';

const require = createRequire(import.meta.url);

/** The path of a file in the package of this system: `@forebay/linux-x64`, or `@forebay/linux-x64-musl` where the C library is musl. @throws with what to install if it is not there. */
export function platformFile(name: string): string {
  const header = process.platform === 'linux' && (process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined)?.header;
  const platform = `@forebay/${process.platform}-${process.arch}${header && header.glibcVersionRuntime === undefined ? '-musl' : ''}`;
  try {
    return require.resolve(`${platform}/${name}`);
  } catch {
    throw new Error(`the package ${platform} is not installed. Install it beside forebay, from its .tgz or by npm install ${platform}@${VERSION}. Only linux-x64, linux-x64-musl and linux-arm64 can have one: on other platforms, build Forebay from source`);
  }
}

/** Loads the native part: from this package, where it was built or the server has laid it, or else from that of the system. @throws if neither has it. */
export function loadAddon(): unknown {
  try {
    return require('./forebay.node');
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'MODULE_NOT_FOUND') throw error;
    return require(platformFile('forebay.node'));
  }
}
