import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { AdaptiveDelay } from '../dist/pool/benchmark/adaptive.js';
import { LatencyHistogram } from '../dist/pool/benchmark/latency.js';
import { completedSending, delayIncreased, delayReduced, queueExhausted, queueIncreased, summary } from '../dist/pool/benchmark/lines.js';
import { drive as driveLoop } from '../dist/pool/benchmark/loop.js';
import { readPlan } from '../dist/pool/benchmark/plan.js';

const DRIVER = fileURLToPath(new URL('../dist/pool/benchmark/main.js', import.meta.url));

const PLAN = {
  contender: 'nothing', kind: 'process', workers: 2, messages: 500, warmup: 100, block: 50, outstanding: 100, delay_ms: 0, adaptive: false,
  payload: 0, handler: null, packages: null, concurrency: null, deadline_ms: 10_000,
};

/** Runs the driver on a plan; resolves to everything it writes and how it ends. */
async function drive(changes, stdin = `${JSON.stringify({ ...PLAN, ...changes })}\n`) {
  const driver = spawn(process.execPath, [DRIVER], { stdio: ['pipe', 'pipe', 'inherit'] });
  driver.stdin.write(stdin);
  let text = '';
  driver.stdout.setEncoding('utf8').on('data', (chunk) => (text += chunk));
  const code = await new Promise((resolve) => driver.on('close', resolve));
  const lines = text.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
  return { code, lines, of: (kind) => lines.filter((line) => line.forebay === kind) };
}

/** Runs the loop with a contender that ends each message at once by calling `end`. */
function loop(messages, end) {
  return driveLoop({ submit: end }, PLAN, messages, { progress() {}, line() {} });
}

function handler(name) {
  return fileURLToPath(new URL(`handlers/${name}`, import.meta.url));
}

test('the delay grows with a longer queue than ever, shrinks with an empty one, and stays at 0', () => {
  const delay = new AdaptiveDelay(1);
  assert.equal(delay.observe(100), 'increased');
  assert.equal(delay.observe(100), 'none');
  assert.equal(delay.observe(99), 'none');
  assert.equal(delay.observe(101), 'increased');
  assert.equal(delay.delay_ms, 3);
  for (let times = 0; times < 5; times += 1) assert.equal(delay.observe(0), 'reduced');
  assert.equal(delay.delay_ms, 0);
});

test('a long queue at the start does not keep the delay from growing later', () => {
  const delay = new AdaptiveDelay(10);
  delay.observe(1000);
  assert.equal(delay.observe(400), 'none');
  delay.observe(0);
  delay.observe(0);
  assert.equal(delay.observe(400), 'increased');
});

test('the lines are those of QOper8', () => {
  assert.equal(queueIncreased(2, 100, 100), 'Block no: 2 (100): queue length increased to 100');
  assert.equal(queueIncreased(12, 22_000, 1950), 'Block no: 12 (22,000): queue length increased to 1,950');
  assert.equal(delayIncreased(10), 'delay increased to 10');
  assert.equal(queueExhausted(1, 0), 'Block no: 1 (0): Queue exhausted');
  assert.equal(delayReduced(9), 'delay reduced to 9');
  assert.equal(completedSending(), 'Completed sending messages');
  assert.deepEqual(summary(1000, 0.138, [498, 502]), [
    '===========================',
    ' ',
    '1,000 messages: 0.138 sec',
    'Processing rate: 7,246.377 message/sec',
    'Child Process 0: 498 messages handled',
    'Child Process 1: 502 messages handled',
    ' ',
    '===========================',
  ]);
});

test('a percentile is at most a hundredth above the time that it stands for', () => {
  const times = Array.from({ length: 10_000 }, (_none, index) => 0.0003 * (index + 1) ** 1.5);
  const histogram = new LatencyHistogram();
  for (const time of times) histogram.record(time);
  for (const q of [0.0001, 0.01, 0.5, 0.9, 0.99, 0.999, 1]) {
    const exact_us = times[Math.ceil(times.length * q) - 1] * 1000;
    const found_us = histogram.percentile_us(q);
    assert.ok(found_us >= exact_us * 0.9999 && found_us <= exact_us * 1.01 + 0.1, `${q}: ${found_us} for ${exact_us}`);
  }
  assert.equal(histogram.count, times.length);
  histogram.record(1e12);
  assert.equal(histogram.percentile_us(1), 214_748_364.8);
  assert.equal(new LatencyHistogram().percentile_us(0.5), 0);
});

test('what a plan must not say is refused with what is accepted', () => {
  assert.throws(() => readPlan(JSON.stringify({ ...PLAN, workers: 0 })), /^Error: workers is 0: a whole number from 1 to 1024 is accepted$/);
  assert.throws(() => readPlan(JSON.stringify({ ...PLAN, contender: 'jest' })), /contender is "jest": accepted are (forebay, )?qoper8-cp/);
  assert.throws(() => readPlan('[]'), /contender is undefined/);
});

test('every message of a run is counted once', async () => {
  const { code, of } = await drive({});
  const [result] = of('result');
  assert.equal(code, 0);
  assert.equal(result.messages, 500);
  assert.deepEqual(result.workers, [{ worker: '0', messages: 250 }, { worker: '1', messages: 250 }]);
  assert.equal(result.errors, 0);
  assert.equal(result.outstanding_max, 100);
  assert.ok(result.latency.p50_us <= result.latency.max_us);
});

test('who answers at once is given one message after the other', async () => {
  const outcome = await loop(200_000, ({ messageNo }, { done }) => done({ messageNo, workerId: 7 }));
  assert.deepEqual(outcome.workers, [{ worker: '7', messages: 200_000 }]);
  assert.equal(outcome.errors, 0);
  assert.equal(outcome.latency.count, 200_000);
});

test('the reply of another, a second reply, and what throws are errors, and no message counts twice', async () => {
  const others = await loop(100, ({ messageNo }, { done }) => done({ messageNo: messageNo + 1 }));
  assert.deepEqual(others.errorTexts, [{ text: 'a message got the reply of another', count: 100 }]);
  const twice = await loop(100, ({ messageNo }, { done }) => {
    done({ messageNo });
    done({ messageNo });
  });
  assert.deepEqual(twice.errorTexts, [{ text: 'a message got a second reply', count: 100 }]);
  const thrown = await loop(100, () => {
    throw new Error('full');
  });
  assert.deepEqual([thrown.errors, thrown.messages, thrown.errorTexts], [100, 100, [{ text: 'full', count: 100 }]]);
});

test('blocks are sent with a delay that follows the queue, and the lines say so', async () => {
  const { code, of } = await drive({ contender: 'ipc', messages: 200, block: 50, outstanding: null, delay_ms: 1, adaptive: true });
  const lines = of('line').map((line) => line.text);
  assert.equal(code, 0);
  assert.equal(lines[0], 'Block no: 1 (0): Queue exhausted');
  assert.equal(lines[1], 'delay reduced to 0');
  assert.ok(lines.includes('Completed sending messages'));
  assert.ok(lines.includes('Child Process 1: 100 messages handled'));
});

test('a message is as large as asked for, and goes to the handler of the file', async () => {
  const { of } = await drive({ contender: 'ipc', messages: 20, warmup: 0, payload: 700, handler: handler('payload.mjs') });
  assert.deepEqual(of('result')[0].workers, [{ worker: 'as long as asked for', messages: 20 }]);
});

test('errors of handlers are counted as errors, with their texts', async () => {
  const { code, of } = await drive({ contender: 'ipc', messages: 30, warmup: 0, handler: handler('odd.mjs') });
  const [result] = of('result');
  assert.equal(code, 0);
  assert.equal(result.errors, 15);
  assert.deepEqual(result.error_texts, [{ text: 'Error: odd numbers are not wanted', count: 15 }]);
});

test('a reply that never comes ends the run with an error', async () => {
  const { code, of } = await drive({ contender: 'ipc', messages: 30, warmup: 0, deadline_ms: 400, handler: handler('silent.mjs') });
  assert.equal(code, 1);
  assert.match(of('error')[0].text, /^no reply to 15 of 30 messages within 400 ms$/);
});

test('a handler that cannot be loaded is an error at the start', async () => {
  const { code, of } = await drive({ contender: 'ipc', handler: handler('missing.mjs') });
  assert.equal(code, 1);
  assert.match(of('error')[0].text, /ended before it was ready/);
});

test('a peer that is not installed is named with the way to get it', async () => {
  const { code, of } = await drive({ contender: 'piscina', packages: '/nowhere' });
  assert.equal(code, 1);
  assert.equal(of('error')[0].text, 'piscina is not installed in /nowhere: npm install --prefix /nowhere piscina@5.3.2');
});

test('the driver ends when whoever started it does', async () => {
  const driver = spawn(process.execPath, [DRIVER], { stdio: ['pipe', 'ignore', 'inherit'] });
  driver.stdin.end(`${JSON.stringify({ ...PLAN, contender: 'ipc', messages: 1_000_000_000 })}\n`);
  assert.equal(await new Promise((resolve) => driver.on('close', resolve)), 1);
});
