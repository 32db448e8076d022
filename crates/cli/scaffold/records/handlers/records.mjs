import { HttpError } from 'forebay';
import { rest } from 'forebay/records';
import { kinds } from '../public/kinds.mjs';

// `true` opens every method of a kind. One may be a function, which does what it would do without by `call.usual()`:
//   { read: true, update: true, delete: true, create: (call) => call.usual({ ...call.data, made: new Date().toISOString() }) }
const answer = rest({ kinds: Object.fromEntries(Object.keys(kinds).map((name) => [name, true])) });

export default (request) => {
  // Browsers say when it is a page of somebody else that has them send a request.
  if (request.headers.get('sec-fetch-site') === 'cross-site') throw new HttpError(403, 'pages of other sites may not use this one');
  return answer(request);
};
