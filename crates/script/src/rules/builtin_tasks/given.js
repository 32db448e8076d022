/** Resolves an operand: a constant, or the value at a path in the context. */
function given({ place, value }, context) {
  if (place === undefined) return value;
  const [root, ...names] = place.split('.');
  let found;
  if (root === 'args') found = context.getArgs();
  else if (root === 'last') found = context.getLastResult()?.getValueMap();
  else if (root === 'item') found = context.getItem();
  else found = context.getAttributes();
  for (const name of names) {
    const has = typeof found === 'object' && found !== null && Object.hasOwn(found, name);
    found = has ? found[name] : undefined;
  }
  if (found === undefined) throw new TypeError(`there is nothing at \`${place}\``);
  return found;
}

/** Resolves named operands to texts; values that are not strings become JSON. */
function givenTexts(all, context) {
  return all.map(([name, one]) => {
    const value = given(one, context);
    return [name, typeof value === 'string' ? value : JSON.stringify(value)];
  });
}
