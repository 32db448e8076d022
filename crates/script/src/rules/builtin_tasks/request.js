async function process(context) {
  const isOfPool = plan.pool !== null;
  const url = isOfPool ? new URL(plan.address, 'http://pool') : new URL(plan.address);
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
  const init = { method: plan.method, headers, body };
  const response = isOfPool ? await pools[plan.pool].fetch(url.pathname + url.search, init) : await fetch(url.href, init);
  const { status } = response;
  const isGood = plan.ok.length > 0 ? plan.ok.includes(status) : response.ok;
  return new ScriptResult(isGood, { status, body: await read(response) });
}

/** The parsed body if it is JSON, other bodies as text, and null for an empty one. */
async function read(response) {
  const text = await response.text();
  if (text === '') return null;
  const isJson = /^application\/([^;]*\+)?json *(;|$)/i.test(response.headers.get('content-type') ?? '');
  if (!isJson) return text;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new TypeError(`${plan.address} has answered ${response.status} with JSON that cannot be read: ${error.message}`);
  }
}
