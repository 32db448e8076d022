import assert from 'node:assert/strict';
import { test } from 'node:test';
import { testing } from 'forebay/testing';
import api from '../handlers/api.ts';

test('a note is kept until it is deleted', async () => {
  const app = testing(api);
  const made = await app.post('/notes', { json: { text: 'Buy milk' } });
  assert.equal(made.status, 201);
  assert.deepEqual(await (await app.get('/notes/1')).json(), { text: 'Buy milk' });
  assert.equal((await app.delete('/notes/1')).status, 204);
  assert.equal((await app.get('/notes/1')).status, 404);
  await app.stop();
});

test('a note without a text is refused', async () => {
  const app = testing(api);
  assert.equal((await app.post('/notes', { json: { txt: 'Buy milk' } })).status, 400);
  await app.stop();
});
