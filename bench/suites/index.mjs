import { loadGenerators } from './generators.mjs';
import { idle } from './idle.mjs';
import { local } from './local.mjs';
import { mixed } from './mixed.mjs';
import { noise } from './noise.mjs';
import { overload } from './overload.mjs';
import { peers } from './peers.mjs';
import { poolBun } from './pool-bun.mjs';
import { poolNode } from './pool-node.mjs';
import { workers } from './workers.mjs';

/**
 * All suites in the order they run. A suite has `name`, `title`, `needsForebay` and `run(context)`, which resolves with `rows` (see
 * ../rows.mjs) and its raw material: `comparisons` (../pairs.mjs), `openLoop` (../openloop/generator.mjs).
 * The context: `binary`, `folder` for temporary files, `progress(text)`, and the amounts of ../options.mjs.
 */
export const suites = [noise, peers, local, poolNode, poolBun, workers, mixed, overload, idle, loadGenerators];
