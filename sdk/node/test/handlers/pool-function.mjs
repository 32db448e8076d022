// The same as pool-router.mjs, as one function.
import { HttpError } from '../../dist/index.js';

export default async function handle(request) {
  if (request.path !== '/double') throw new HttpError(404, 'there is no such thing');
  return { width: (await request.json()).width * 2 };
}
