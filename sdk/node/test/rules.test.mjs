// The tools of rules that do not need the server.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RuleDate, changed } from '../dist/rules/tools/date-holder.js';

const after = (date, field, amount) => changed(new RuleDate(date), field, amount).toISOString();

describe('dates of rules', () => {
  test('a month or a year later it is the same day, or the last one that there is', () => {
    for (const [date, field, amount, found] of [
      ['2023-01-31T10:00:00.000Z', 2, 1, '2023-02-28T10:00:00.000Z'],
      ['2024-01-31T10:00:00.000Z', 2, 1, '2024-02-29T10:00:00.000Z'],
      ['2023-01-31T10:00:00.000Z', 2, 13, '2024-02-29T10:00:00.000Z'],
      ['2023-05-31T10:00:00.000Z', 2, -1, '2023-04-30T10:00:00.000Z'],
      ['2023-01-15T10:00:00.000Z', 2, -1, '2022-12-15T10:00:00.000Z'],
      ['2024-02-29T10:00:00.000Z', 1, 1, '2025-02-28T10:00:00.000Z'],
      ['2024-02-29T10:00:00.000Z', 1, -4, '2020-02-29T10:00:00.000Z'],
    ]) {
      assert.equal(after(date, field, amount), found);
    }
  });
});
