function process(context) {
  const subscripts = plan.subscripts.map((one) => given(one, context));
  const node = store.node(plan.global, ...subscripts);
  if (plan.operation === 'remove') return new ScriptResult(node.delete());
  if (plan.operation === 'get') {
    const value = node.get();
    return new ScriptResult(value !== undefined, { value: value ?? null });
  }
  const value = given(plan.value, context);
  if (plan.operation === 'increment') return new ScriptResult(true, { value: node.increment(value) });
  node.set(value);
  return new ScriptResult(true, { value });
}
