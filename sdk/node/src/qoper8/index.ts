/**
 * QOper8's interface on top of `forebay/pool`: a program written for qoper8-cp only changes its import; one written for qoper8-wt also adds
 * the option `kind: 'thread'`.
 *
 * @module
 */
export { QOper8, QOper8 as default, type QOper8Stats, type SendOptions } from './qoper8.js';
export type { Callback, QOper8Message } from './delivery.js';
export type { Listener } from './listeners.js';
export type { QOper8Options, QueueBackup } from './options.js';
export type { Finished, HandlerThis, QOper8Handler } from './self.js';
export type { DatabaseOption, HandlerEntry, StartupModule, WorkerReport } from './setup.js';
