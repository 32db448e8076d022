// The content of the store in the store suites, and the data they write.

import { fileURLToPath } from 'node:url';

/** The handlers of mg_web's routes from the showcase. */
export const mgwebHandler = fileURLToPath(new URL('../../examples/showcase/handlers/mgweb.mjs', import.meta.url));

/** The document written by POST to the store, by POST /mgweb/save, and by the peers. Canonical, so that it is stored unchanged. */
export const PERSON = '{"firstName":"Ada","lastName":"Lovelace"}';

/** The load that appends people directly to the store. */
export const DIRECT_POST = { path: '/store/Person/data', post: PERSON, connections: 64 };

/** A record of 200 bytes, in canonical form. */
export const RECORD = {
  path: '/store/Person/record',
  body: '{"born":1815,"city":"London","email":"ada@example.org","firstName":"Ada","lastName":"Lovelace","note":"first to see that the engine could do more than sums","tags":["mathematics","poetry","machines"]}',
  connections: 64,
};

/** NDJSON that seeds the store: two people and the record. */
export const SEED = `{"path":["Person","nextId"],"value":2}
{"path":["Person","data",1],"document":{"firstName":"Rob","lastName":"Tweed"}}
{"path":["Person","data",2],"document":{"firstName":"Ada","lastName":"Lovelace"}}
{"path":["Person","record"],"document":${RECORD.body}}
`;
