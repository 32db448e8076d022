// Where the graph goes on: by what the terms say.
function process(context) {
  const terms = context.getLastResult().getValueMap();
  return new ScriptResult(true, { ...terms, case: terms.handling });
}
