// A handler written for QOper8; the message says what to do.
import { spinUntil } from './qoper8-spin.mjs';

let handler = function (obj, finished) {
  switch (obj.do) {
    case 'echo':
      return finished({ id: this.id, data: obj.data, count: this.getMessageCount() });
    case 'pid':
      return finished({ pid: process.pid, id: this.id });
    case 'throw':
      throw Object.assign(new TypeError('y is not there'), { hint: 7 });
    case 'reject':
      return Promise.reject(new Error('later'));
    case 'block':
      spinUntil(() => false);
      break;
    case 'exit':
      process.exit(3);
      break;
    case 'wait':
      setTimeout(() => finished({ waited: obj.ms, id: this.id }), obj.ms);
      break;
    case 'twice':
      finished({ reply: obj.n });
      finished({ reply: -obj.n });
      setTimeout(finished, 1, { reply: -obj.n });
      break;
    case 'parts':
      this.send({ part: 1, of: obj.n });
      this.postMessage({ part: 2, of: obj.n });
      return finished({ final: true, of: obj.n });
    case 'big':
      return finished({ big: 10n });
    case 'circle': {
      const reply = {};
      reply.self = reply;
      return finished(reply);
    }
    case 'function':
      return finished({ f() {} });
    case 'sleep-then-late-part':
      finished({ n: obj.n });
      setTimeout((send) => send({ late: obj.n }), 1, this.send);
  }
};
export { handler };
