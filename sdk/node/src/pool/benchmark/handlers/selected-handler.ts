/** The handler for workers of peers: the plan's file, passed in an environment variable, or the default handler. */
import { pathToFileURL } from 'node:url';
import defaultHandler from './default-handler.js';
import { HANDLER_VARIABLE } from './variables.js';

type Handle = (message: never, context: { readonly worker: { readonly id: number | string } }) => unknown;

const file = process.env[HANDLER_VARIABLE];
const found: unknown = file === undefined ? defaultHandler : ((await import(pathToFileURL(file).href)) as { default?: unknown }).default;
if (typeof found !== 'function') throw new TypeError(`${file} has no default export that is a function (message, ctx) => reply`);

export const handle = found as Handle;
