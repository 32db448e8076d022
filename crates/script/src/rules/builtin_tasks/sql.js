async function process(context) {
  const parameters = plan.parameters.map((one) => given(one, context));
  const rows = await sql[plan.source].query(plan.query, parameters);
  const isThere = rows.length > 0;
  if (plan.result === 'rows') return new ScriptResult(isThere, { rows });
  if (plan.result === 'row') return new ScriptResult(isThere, { row: isThere ? rows[0] : null });
  if (plan.result === 'value') return new ScriptResult(isThere, { value: isThere ? Object.values(rows[0])[0] : null });
  return new ScriptResult(rows.count > 0, { count: rows.count });
}
