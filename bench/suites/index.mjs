import { cluster } from './cluster.mjs';
import { front } from './front.mjs';
import { loadGenerators } from './generators.mjs';
import { idle } from './idle.mjs';
import { mixed } from './mixed.mjs';
import { overload } from './overload.mjs';
import { sqlDrivers } from './sql-drivers.mjs';
import { storeNode } from './store-node.mjs';
import { storeReaders } from './store-readers.mjs';
import { storeRust } from './store-rust.mjs';
import { tql } from './tql.mjs';
import { watch } from './watch.mjs';
import { websockets } from './websockets.mjs';
import { workflows } from './workflows.mjs';

const stores = [storeNode, storeRust, storeReaders];

/**
 * All suites in the order in which they run. A suite has `name`, `title`, `needsForebay` and `run(context)`, which resolves to `rows` (see
 * ../rows.mjs) and its raw data: `openLoop` (../openloop/generator.mjs), `rounds` (../laps.mjs), `contest` (../contest.mjs), and `skipped`: sentences about peers that are not installed.
 * The context: `binary`, `folder` for temporary files, `progress(text)`, and the amounts of ../options.mjs.
 */
export const suites = [mixed, overload, idle, front, websockets, cluster, loadGenerators, tql, sqlDrivers, workflows, watch, ...stores];
