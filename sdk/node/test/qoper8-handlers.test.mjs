// Handlers and start-up modules as they are written for QOper8.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HANDLERS, KINDS, start } from './qoper8s.mjs';

for (const kind of KINDS) {
  describe(`a QOper8 handler in a worker of kind ${kind}`, () => {
    it('is the text of a function', async (context) => {
      const text = 'finished({ time: 1, received: message, id: this.id });';
      const qoper8 = start(context, { kind, handlersByMessageType: new Map([['test', { text }]]) });
      const reply = await qoper8.send({ type: 'test', hello: 'world' });
      assert.deepEqual(reply, { time: 1, received: { type: 'test', hello: 'world' }, id: 0, qoper8: { finished: true } });
    });
  });
}
