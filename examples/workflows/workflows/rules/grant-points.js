function process(context) {
  return new ScriptResult(true, { userId: context.getArgs().userId, points: 20 });
}
