// A reporter for Node's test runner that `run.mjs` reads: a line of JSON for each test, and what tests print as it is.

export default async function* report(events) {
  for await (const { type, data } of events) {
    if (type === 'test:stdout' || type === 'test:stderr') yield data.message;
    if (type !== 'test:pass' && type !== 'test:fail') continue;
    if (data.details.type === 'suite') continue;
    const error = data.details.error;
    yield `${JSON.stringify({
      test: data.name,
      seconds: data.details.duration_ms / 1000,
      passed: type === 'test:pass',
      error: error && String(error.cause?.stack ?? error.stack ?? error),
    })}\n`;
  }
}
