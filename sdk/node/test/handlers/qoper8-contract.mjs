// The guarantees that QOper8 makes to handlers.
let handler = function (message, finished) {
  return steps[message.step].call(this, message, finished);
};

const steps = {
  members(_message, finished) {
    finished({
      members: Object.keys(this).sort(),
      cwd: this.cwd,
      upTime: this.upTime(),
      count: this.getMessageCount(),
      id: this.id,
      starts: this.starts,
      bar: this.bar?.('arg'),
    });
  },
  // Changes of `this` end with the message; the content of the cache stays.
  write(message, finished) {
    const found = { extra: this.extra ?? null, cached: this.cache.get('key')?.value ?? null };
    this.extra = message.value;
    this.cache.set('key', { value: message.value, at: Date.now() });
    finished(found);
  },
  async awaited(message, finished) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    finished({ awaited: message.value });
  },
  async returned(message) {
    await null;
    return { returned: message.value };
  },
  // An asynchronous function that returns before the work it started has ended.
  async later(message, finished) {
    setTimeout(() => finished({ later: message.value }), 5);
  },
  timer(message, finished) {
    return setTimeout(finished, 5, { timer: message.value });
  },
  rejects() {
    return Promise.reject(new RangeError('not in range'));
  },
  async throws() {
    await null;
    throw new RangeError('not in range');
  },
  'answers-then-throws'(message, finished) {
    finished({ answered: message.value });
    throw new Error('after the answer');
  },
  nothing(_message, finished) {
    finished();
  },
  events(message, finished) {
    const heard = [];
    this.on('mine', (data) => heard.push(['first', data]));
    this.on('mine', (data) => heard.push(['second', data]));
    this.on('finished', (reply) => heard.push(['finished', reply === answer]));
    this.emit('mine', message.value);
    this.off('mine');
    this.emit('mine', 'again');
    const answer = { heard };
    finished(answer);
  },
  log(message, finished) {
    this.log(message.value);
    finished({});
  },
  nested(message, finished) {
    this.onMessage({ type: 'contract', step: 'returned', value: message.value }).then((reply) => finished({ nested: reply }));
  },
  echo(message, finished) {
    finished({ value: message.value });
  },
};
export { handler };
