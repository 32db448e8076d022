import { lapProgram } from '../laps.mjs';
import { bun, lackingPackage } from './installed.mjs';

/** SQLite as built into the pinned Bun. */
export const sqlite = lapProgram('SQLite in Bun', bun, new URL('laps/sqlite.mjs', import.meta.url), () => lackingPackage('bun'));
