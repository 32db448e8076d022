// `serve` of forebay/testing, which the tests of the examples use, where it fails.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { serve } from 'forebay/testing';

test('a server that cannot start rejects with what it says', async () => {
  await assert.rejects(serve(['-c', 'missing.toml']), /ended with \d+:\n.*missing\.toml/);
});
