import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sleep } from '../dist/index.js';

test('who sleeps wakes up when the time has passed', async () => {
  const begun = performance.now();
  assert.equal(await sleep(20), undefined);
  assert.ok(performance.now() - begun >= 19);
});

test('what no timer can wait for is refused, and does not return at once', async () => {
  for (const ms of [3e9, 2 ** 31, Infinity, NaN]) {
    await assert.rejects(sleep(ms), { name: 'RangeError', message: `a sleep takes at most 2147483647 milliseconds, not ${ms}` });
  }
  await sleep(-1);
  const { signal } = new AbortController();
  await assert.rejects(sleep(Infinity, { signal }), { name: 'RangeError' });
});

test('an aborted signal ends a sleep with its reason, before and meanwhile', async () => {
  const controller = new AbortController();
  const sleeping = sleep(1_000_000, { signal: controller.signal });
  const reason = new Error('enough');
  controller.abort(reason);
  await assert.rejects(sleeping, reason);
  await assert.rejects(sleep(1, { signal: controller.signal }), reason);
  await sleep(1, { signal: new AbortController().signal });
});
