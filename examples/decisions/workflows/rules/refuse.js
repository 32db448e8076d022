function process(context) {
  const { because } = context.getLastResult().getValueMap();
  return new ScriptResult(false, { outcome: 'refuse', refund: 0, because });
}
