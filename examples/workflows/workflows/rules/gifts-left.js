function process(context) {
  const { giftsGiven = 0 } = context.getArgs();
  return new ScriptResult(giftsGiven <= context.getAttributes().stockMax, { giftsGiven });
}
