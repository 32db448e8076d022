// Elements. What comes from records is only ever text.

/** An element: attributes and properties, listeners as `onclick`, and what is in it. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (['value', 'checked', 'selected'].includes(key)) element[key] = value;
    else element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false));
  return element;
}

/** A message that says what went wrong, and what can be done. */
export function trouble(failure, retry) {
  return h(
    'div',
    { class: 'trouble', role: 'alert' },
    h('p', {}, h('strong', {}, failure.message)),
    failure.hint && h('p', {}, failure.hint),
    retry && h('p', {}, h('button', { type: 'button', onclick: retry }, 'Try again')),
  );
}

/** What stands where something will be; seen only if it takes a while. */
export function waiting(what) {
  return h('p', { class: 'waiting', role: 'status' }, `${what} …`);
}

/** Text of any length; beyond so many characters, it is shown when asked for. */
export function longText(text, most = 20_000) {
  if (text.length <= most) return [text];
  const rest = h(
    'button',
    { type: 'button', class: 'quiet', onclick: () => rest.replaceWith(text.slice(most)) },
    `Show the other ${(text.length - most).toLocaleString('en')} characters`,
  );
  return [text.slice(0, most), rest];
}
