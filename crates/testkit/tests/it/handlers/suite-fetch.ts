// The web's form of a handler.
export default {
  async fetch(request: Request): Promise<Response> {
    const url = new URL(request.url);
    switch (url.pathname) {
      case '/text':
        return new Response(`${request.method} ${url.search}`, { headers: { 'content-type': 'text/plain', 'x-path': url.pathname } });
      case '/echo':
        return new Response(request.body, { status: 201, headers: { 'content-type': request.headers.get('content-type') ?? 'none' } });
      case '/json':
        return Response.json({ got: await request.json(), aborted: request.signal.aborted });
      case '/form': {
        const form = await request.formData();
        return Response.json([...form.entries()].map(([name, value]) => [name, String(value)]));
      }
      case '/redirect':
        return Response.redirect('http://example.org/there', 307);
      case '/fails':
        throw new Error('a secret');
      default:
        return new Response(null, { status: 404 });
    }
  },
};
