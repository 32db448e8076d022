import { lapProgram } from '../laps.mjs';
import { bun, lackingPackage } from './installed.mjs';

/** SQLite inside Bun, which has it built in: Node 20 has none, and the pinned Bun is there anyway. */
export const sqlite = lapProgram('SQLite in Bun', bun, new URL('laps/sqlite.mjs', import.meta.url), () => lackingPackage('bun'));
