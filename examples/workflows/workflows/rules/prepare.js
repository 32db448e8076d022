// What the other rules look at: who, when, and how much was recharged.
function process(context) {
  const { userId, date, recharge } = context.getArgs();
  if (typeof userId !== 'string') throw new TypeError('the argument `userId` is missing: text');
  if (typeof recharge !== 'number') throw new TypeError('the argument `recharge` is missing: a number');
  if (Number.isNaN(Date.parse(date))) throw new TypeError('the argument `date` is missing: a date such as 2026-11-20');
  return new ScriptResult(true, { userId, date, recharge });
}
