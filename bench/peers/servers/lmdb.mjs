// Node's own server in front of lmdb-js, with one document per person: `node lmdb.mjs FOLDER`.
import { createServer } from 'node:http';
import { open } from 'lmdb';

const store = open({ path: process.argv[2] });
await store.put(['Person', 1], { firstName: 'Rob', lastName: 'Tweed' });

const server = createServer((request, response) => {
  const key = request.url.slice('/user/'.length);
  const body = JSON.stringify({ key, data: store.get(['Person', Number(key)]) });
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) });
  response.end(body);
});
server.listen(0, '127.0.0.1', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
