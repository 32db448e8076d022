/**
 * What rules of workflows find as globals.
 *
 * @module
 */
export { tools } from './tools/index.js';
