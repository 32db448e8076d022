// WebSockets of Bun.serve, which sends every message back.
const server = Bun.serve({
  hostname: '127.0.0.1',
  port: 0,
  fetch: (request, server) => (server.upgrade(request) ? undefined : new Response('not a WebSocket', { status: 400 })),
  websocket: { message: (socket, message) => void socket.send(message) },
});
console.log(`listening on http://127.0.0.1:${server.port}`);
