// Runs where the balance could not be granted.
function process(context) {
  console.error('the balance of', context.getArgs().userId, 'was not granted');
  return new ScriptResult(false, { userId: context.getArgs().userId, balance: 0 });
}
