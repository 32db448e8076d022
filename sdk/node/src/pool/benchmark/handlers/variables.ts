/** Environment variables that configure the workers of peers. */

/** The path of `plan.handler`. */
export const HANDLER_VARIABLE = 'FOREBAY_BENCH_HANDLER';

/** The URL of workerpool's entry file, as the pool imported it. */
export const WORKERPOOL_VARIABLE = 'FOREBAY_BENCH_WORKERPOOL';
