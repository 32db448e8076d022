// The same as pool-router.mjs, for the Fetch API.
export default {
  async fetch(request) {
    if (new URL(request.url).pathname !== '/double') return new Response('not found', { status: 404 });
    return Response.json({ width: (await request.json()).width * 2 });
  },
};
