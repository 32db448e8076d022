function process(context) {
  const { share, because } = context.getLastResult().getValueMap();
  return new ScriptResult(true, { outcome: 'pay', refund: Math.round(context.getArgs().amount * share), because });
}
