/** Names of the environment under which workers of peers are told what they need. */

/** The file of `plan.handler`. */
export const HANDLER_VARIABLE = 'FOREBAY_BENCH_HANDLER';

/** The URL of workerpool's entry, as its pool has imported it. */
export const WORKERPOOL_VARIABLE = 'FOREBAY_BENCH_WORKERPOOL';
