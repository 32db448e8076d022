function process(context) {
  const { from, until } = context.getAttributes();
  const date = Date.parse(context.getArgs().date);
  return new ScriptResult(Date.parse(from) <= date && date < Date.parse(until));
}
