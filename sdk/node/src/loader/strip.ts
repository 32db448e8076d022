/**
 * TypeScript without a compiler at run time: the server's binary removes the types (`forebay strip FILE` prints the result),
 * and the result is cached under the source's SHA-256, so each version of a file is stripped once per machine.
 */
import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Maximum size of stripped source read from the binary. */
const SOURCE_BYTES_MAX = 64 * 1024 * 1024;

/** Whether a path is a TypeScript module of the application; packages ship JavaScript. */
export function isTypeScript(path: string): boolean {
  return /\.m?ts$/.test(path) && !path.includes('/node_modules/');
}

/** The file's JavaScript. @throws with the stripper's message (file, line, what is not supported) if it fails. */
export function strip(path: string): string {
  // Imported lazily: most workers strip nothing, and this takes milliseconds of their startup.
  const { createHash } = process.getBuiltinModule('node:crypto');
  const source = readFileSync(path);
  const cache = process.env['FOREBAY_CACHE_DIR'];
  const folder = cache === undefined ? undefined : join(cache, 'ts');
  const cached = folder && join(folder, `${createHash('sha256').update(source).digest('hex')}.js`);
  if (cached !== undefined) {
    try {
      return readFileSync(cached, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  const stripped = runStripper(path);
  if (folder !== undefined && cached !== undefined) {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const temporary = `${cached}.${process.pid}`;
    writeFileSync(temporary, stripped);
    renameSync(temporary, cached);
  }
  return stripped;
}

function runStripper(path: string): string {
  const binary = process.env['FOREBAY_BIN'];
  if (binary === undefined) throw new Error(`cannot load ${path}: FOREBAY_BIN, which strips TypeScript, is not set`);
  const { execFileSync } = process.getBuiltinModule('node:child_process');
  try {
    return execFileSync(binary, ['strip', path], { encoding: 'utf8', maxBuffer: SOURCE_BYTES_MAX, stdio: 'pipe' });
  } catch (error) {
    const { stderr, message } = error as Error & { stderr?: string };
    throw new SyntaxError(stderr?.trim() || `cannot strip ${path}: ${message}`);
  }
}
