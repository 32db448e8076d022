// A controller that answers on purpose well or badly, without the SDK. The last part of each request's path says how.
'use strict';
const { closeSync, openSync, readSync, writeSync } = require('node:fs');

const wabur = process.argv[2] === 'wabur';
// Blocking, so that what is written is written even when the process ends or hangs right after.
const out = openSync('/dev/stdout', 'w');
const write = (text) => {
  for (let bytes = Buffer.from(text); bytes.length > 0; ) bytes = bytes.subarray(writeSync(out, bytes));
};
const message = (id, body) => JSON.stringify(wabur ? { rid: id, api: 2, body: JSON.parse(body) } : { id, body });
const answer = (id, body) => write(`${message(id, body)}\n`);
const spin = () => {
  for (;;);
};
/** Calls that wait for what the server says: what goes on then. */
const calls = new Map();

const ways = {
  echo: answer,
  print(id, body) {
    write('loading...\nhalf a line ');
    answer(id, body);
  },
  log(id, body) {
    console.log({ a: 1 });
    write('{"level":30,"status":200,"msg":"a line of a logger"}\n{"id":"x"}\n[1]\n{\n}{{"open":"\n');
    answer(id, body);
  },
  glued(id, body) {
    write(`Warning: deprecated {call}${message(id, body)}more`);
  },
  twice(id, body) {
    write(`${message(id, body)}${message(id, wabur ? '"again"' : 'again')}\n`);
  },
  others(id, body) {
    for (const other of [0, 4_000_000_000, 'none', null]) write(`${JSON.stringify(wabur ? { rid: String(other), api: 2, body: 1 } : { id: other, body: 'x' })}\n`);
    answer(id, body);
  },
  nameless(id, body) {
    write(`${JSON.stringify({ body })}\n`);
  },
  echoes(id, body) {
    const answers = `${JSON.stringify({ body })}\n`.repeat(2);
    setTimeout(write, 300, answers);
  },
  text(id, body) {
    write('.'.repeat(1_000_000));
    answer(id, body);
  },
  bytewise(id, body) {
    for (const byte of Buffer.from(message(id, body))) writeSync(out, Uint8Array.of(byte));
  },
  slow(id, body) {
    setTimeout(answer, 1000, id, body);
  },
  later(id, body) {
    setTimeout(answer, Math.random() * 20, id, body);
  },
  staus(id) {
    write(wabur ? `{"rid":"${id}","api":2}\n` : `{"id":${id},"staus":200}\n`);
  },
  never() {},
  spin,
  deaf: spin,
  exit: () => process.exit(1),
  exits(id, body) {
    answer(id, body);
    process.exit(0);
  },
  half(id, body) {
    write(message(id, body).slice(0, -3));
    process.exit(1);
  },
  invalid(id) {
    write(`{"${wabur ? 'rid' : 'id'}":${id},"body":nonsense}\n`);
  },
  long(id) {
    write(message(id, JSON.stringify('x'.repeat(2_000_000))));
    spin();
  },
  flood() {
    for (;;) write('{"what":"is","this":["about"]} no end in sight\n');
  },
  closes(id, body) {
    process.stdin.destroy();
    closeSync(0);
    answer(id, body);
    setInterval(() => {}, 1000);
  },
  call(id) {
    calls.set(String(id), (result) => answer(id, JSON.stringify(result)));
    write(wabur ? `{"rid":"${id}","api":3,"body":{"where":11,"select":"$"}}\n` : `{"call":"${id}","tql":{"where":11,"select":"$"}}\n`);
  },
  calls() {
    for (;;) write(wabur ? '{"rid":"1","api":3,"body":{"where":11}}' : '{"call":1,"tql":{"where":11}}');
  },
  logs(id, body) {
    if (wabur) write(`{"rid":"9","api":5,"body":{"level":"warn","message":"told by a message"}}{"api":6,"body":"and another"}`);
    answer(id, body);
  },
};

function take(line) {
  const said = JSON.parse(line);
  if (wabur && said.api < 0) process.exit(0);
  if (wabur && said.api === 6) return process.stderr.write(`noted: ${line}\n`);
  if (said.call !== undefined || said.api === 4) return calls.get(said.call ?? said.rid)(said.result ?? said.body);
  if (wabur) {
    const { path, content } = said.body;
    ways[path.at(-1)](said.rid, JSON.stringify(content ?? null));
  } else {
    ways[said.path.split('/').at(-1)](said.id, said.body);
  }
}

let rest = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (text) => {
  const lines = (rest + text).split('\n');
  rest = lines.pop();
  lines.forEach(take);
});
