import { lapProgram } from '../laps.mjs';
import { bun, lackingPackage } from './installed.mjs';

/** SQLite inside Bun, which has it built in, and is pinned. */
export const sqlite = lapProgram('SQLite in Bun', bun, new URL('laps/sqlite.mjs', import.meta.url), () => lackingPackage('bun'));
