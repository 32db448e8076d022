function process(context) {
  const { name = 'world' } = context.getArgs();
  return new ScriptResult(true, { greeting: `Hello, ${name}!` });
}
