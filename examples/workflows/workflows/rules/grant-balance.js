function process(context) {
  return new ScriptResult(true, { userId: context.getArgs().userId, balance: 10 });
}
