/**
 * The tools that workflow rules find as globals.
 *
 * @module
 */
export { tools } from './tools/index.js';
