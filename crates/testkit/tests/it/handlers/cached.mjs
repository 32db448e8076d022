// Answers as its query says: `h`, fields as NAME:VALUE, `status`, `size` of the body, `stream`, `wait` of a GET until /control/open. Its body is what
// it was asked, with the number of calls.
let calls = 0;
let isFailing = false;
const waiting = [];

export default async (request) => {
  const url = new URL(request.url, 'http://handler');
  switch (url.pathname) {
    case '/control/calls':
      return new Response(String(calls));
    case '/control/open':
      for (const go of waiting.splice(0)) go();
      return new Response('opened');
    case '/control/fail':
      isFailing = true;
      return new Response('failing');
  }
  calls += 1;
  const own = calls;
  const query = url.searchParams;
  if (query.has('wait') && request.method === 'GET') await new Promise((go) => waiting.push(go));
  if (isFailing) return new Response('failed', { status: 500 });
  const headers = new Headers();
  for (const field of query.getAll('h')) headers.append(...field.split(/:(.*)/s).slice(0, 2));
  if (headers.has('etag') && request.headers.get('if-none-match') === headers.get('etag'))
    return new Response(null, { status: 304, headers });
  const asked = JSON.stringify([...request.headers].filter(([name]) => name !== 'x-request-id'));
  const text = `${own} ${request.method} ${request.url} ${asked}`.padEnd(Number(query.get('size') ?? 0), '-');
  let body = text;
  if (query.has('stream'))
    body = new ReadableStream({
      async start(controller) {
        const bytes = new TextEncoder().encode(text);
        for (let at = 0; at < bytes.length; at += 50_000) {
          controller.enqueue(bytes.slice(at, at + 50_000));
          await new Promise((go) => setImmediate(go));
        }
        controller.close();
      },
    });
  return new Response(body, { status: Number(query.get('status') ?? 200), headers });
};
