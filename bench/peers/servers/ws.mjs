// The package ws, which sends every message back.
import { WebSocketServer } from 'ws';

const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false });
server.on('connection', (socket) => socket.on('message', (message, isBinary) => socket.send(message, { binary: isBinary })));
server.on('listening', () => console.log(`listening on http://127.0.0.1:${server.address().port}`));
