// A stream of events, and a chat room of WebSockets.
import { router, sleep, sse, websocket } from 'forebay';

const app = router();

app.get('/sse', () =>
  sse(async function* () {
    for (let tick = 1; ; tick++) {
      yield { id: String(tick), data: { tick, time: new Date().toISOString() } };
      await sleep(1000);
    }
  }));

app.get('/ws', (request) => {
  const name = request.query.get('name') ?? 'somebody';
  return websocket({
    open(socket) {
      socket.join('chat');
      socket.send('Welcome. Whatever you write goes to everybody here.');
      socket.broadcast('chat', `${name} is here`);
    },
    message(socket, message) {
      socket.send(`you: ${message}`);
      socket.broadcast('chat', `${name}: ${message}`);
    },
    close: (socket) => socket.broadcast('chat', `${name} has left`),
  });
});

export default app;
