async function process(context) {
  const url = new URL(plan.url);
  for (const [name, text] of givenTexts(plan.query, context)) url.searchParams.append(name, text);
  const headers = new Headers();
  for (const [name, text] of givenTexts(plan.headers, context)) headers.set(name, text);
  let body;
  if (plan.body !== null) {
    body = given(plan.body, context);
    const isReady = typeof body === 'string' && headers.has('content-type');
    if (!isReady) body = JSON.stringify(body);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
  }
  const response = await fetch(url.href, { method: plan.method, headers, body });
  const { status } = response;
  const isGood = plan.ok.length > 0 ? plan.ok.includes(status) : response.ok;
  return new ScriptResult(isGood, { status, body: await read(response) });
}

/** JSON as its value, other bodies as text, and null for none. */
async function read(response) {
  const text = await response.text();
  if (text === '') return null;
  const isJson = /^application\/([^;]*\+)?json *(;|$)/i.test(response.headers.get('content-type') ?? '');
  if (!isJson) return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TypeError(`${plan.url} has answered ${response.status} with JSON that cannot be read: ${error.message}`);
  }
}
