import { lapProgram } from '../laps.mjs';
import { lackingPackage } from './installed.mjs';

/** lmdb-js, a key-value store inside Node on LMDB. */
export const lmdb = lapProgram('lmdb-js', process.execPath, new URL('laps/lmdb.mjs', import.meta.url), () => lackingPackage('lmdb'));
