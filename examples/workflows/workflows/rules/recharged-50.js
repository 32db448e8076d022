function process(context) {
  return new ScriptResult(context.getArgs().recharge >= 50);
}
