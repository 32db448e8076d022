/** The handler in the form that workers of the server call: `forebay bench pool --dispatcher server` sends messages as request bodies. */
import type { Context } from '../../../context.js';
import type { HttpRequest, WireRequest } from '../../../request.js';
import { handle } from './selected-handler.js';

export default function serverHandler(request: HttpRequest, context: Context): unknown {
  const text = (request as WireRequest).textNow();
  if (text === undefined) return request.json<never>().then((message) => handle(message, context));
  return handle(JSON.parse(text) as never, context);
}
