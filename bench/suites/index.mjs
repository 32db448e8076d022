import { loadGenerators } from './generators.mjs';
import { idle } from './idle.mjs';
import { ladder } from './ladder.mjs';
import { local } from './local.mjs';
import { mixed } from './mixed.mjs';
import { noise } from './noise.mjs';
import { overload } from './overload.mjs';
import { peers } from './peers.mjs';
import { poolBun } from './pool-bun.mjs';
import { poolFastify } from './pool-fastify.mjs';
import { poolNode } from './pool-node.mjs';
import { poolPython } from './pool-python.mjs';
import { script } from './script.mjs';
import { sqlDrivers } from './sql-drivers.mjs';
import { sql } from './sql.mjs';
import { storeGet } from './store-get.mjs';
import { storeMgweb } from './store-mgweb.mjs';
import { storeNode } from './store-node.mjs';
import { storePost } from './store-post.mjs';
import { storeReaders } from './store-readers.mjs';
import { storeRust } from './store-rust.mjs';
import { tql } from './tql.mjs';
import { workers } from './workers.mjs';
import { workflows } from './workflows.mjs';

const stores = [storeNode, storeRust, storeReaders, storeGet, storeMgweb, storePost];

/**
 * All suites in the order in which they run. A suite has `name`, `title`, `needsForebay` and `run(context)`, which resolves to `rows` (see
 * ../rows.mjs) and its raw data: `comparisons` (../pairs.mjs), `openLoop` (../openloop/generator.mjs), `rounds`
 * (../laps.mjs), `ladder` (../rungs.mjs), `contest` (../contest.mjs), and `skipped`: sentences about peers that are not installed.
 * The context: `binary`, `folder` for temporary files, `progress(text)`, and the amounts of ../options.mjs.
 */
export const suites = [noise, peers, local, poolNode, poolBun, poolPython, poolFastify, workers, mixed, overload, idle, loadGenerators, script, ladder, tql, sql, sqlDrivers, workflows, ...stores];
