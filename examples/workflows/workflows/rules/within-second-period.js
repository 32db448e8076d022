function process(context) {
  const { secondPeriodFrom, until } = context.getAttributes();
  const date = Date.parse(context.getArgs().date);
  return new ScriptResult(Date.parse(secondPeriodFrom) <= date && date < Date.parse(until));
}
