// The facts that the terms are about.
function process(context) {
  const { amount, reason, tier = 'standard', delivered, requested } = context.getArgs();
  const days = Math.floor((Date.parse(requested) - Date.parse(delivered)) / 86_400_000);
  return new ScriptResult(days >= 0, { amount, reason, tier, days });
}
