// The node before has kept the request, for somebody to look at.
function process(context) {
  const { order } = context.getArgs();
  console.info(`order ${order} waits for a review`);
  return new ScriptResult(true, { outcome: 'review', refund: 0, because: 'somebody looks at it' });
}
