// The handler that QOper8's worker processes run.
export function handler(message, finished) {
  finished({ hello: 'world' });
}
