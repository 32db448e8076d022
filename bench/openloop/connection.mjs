// One keep-alive connection of the open-loop generator: one request at a time, raw bytes, as few allocations as possible.

import net from 'node:net';
import tls from 'node:tls';

const HEAD_END = Buffer.from('\r\n\r\n');

/** One for all connections, which so share what it allocates. No certificate is verified, no session resumed. */
const secureContext = tls.createSecureContext();

/**
 * Splits a connection's bytes into responses. `push` takes the next bytes and returns `{status, retryAfter, close}` once a response is
 * complete, else null. Throws on responses without Content-Length.
 */
export class AnswerReader {
  #bytes = Buffer.alloc(0);

  push(part) {
    this.#bytes = this.#bytes.length === 0 ? part : Buffer.concat([this.#bytes, part]);
    const headEnd = this.#bytes.indexOf(HEAD_END);
    if (headEnd < 0) return null;
    const head = this.#bytes.latin1Slice(0, headEnd);
    const status = /^HTTP\/1\.1 (\d{3})/.exec(head);
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    if (!status || !length) throw new Error(`not an HTTP/1.1 answer with Content-Length: ${head.slice(0, 200)}`);
    const end = headEnd + HEAD_END.length + Number(length[1]);
    if (this.#bytes.length < end) return null;
    if (this.#bytes.length > end) throw new Error('more bytes than the answer announced');
    this.#bytes = Buffer.alloc(0);
    return {
      status: Number(status[1]),
      retryAfter: /\r\nretry-after:/i.test(head),
      close: /\r\nconnection: *close/i.test(head),
    };
  }
}

/** Calls `onAnswer(answer)` for each response, and `onGone(error)` once when the connection ends, whoever closed it. With `secure` it speaks TLS. */
export class Connection {
  #socket;

  constructor(port, { onAnswer, onGone, secure = false }) {
    const reader = new AnswerReader();
    let failure = new Error('the server closed the connection');
    const options = { host: '127.0.0.1', port, noDelay: true };
    this.#socket = secure ? tls.connect({ ...options, secureContext, rejectUnauthorized: false }) : net.connect(options);
    this.#socket.on('data', (part) => {
      try {
        const answer = reader.push(part);
        if (!answer) return;
        if (answer.close) this.close();
        onAnswer(answer);
      } catch (error) {
        this.#socket.destroy(error);
      }
    });
    this.#socket.on('error', (error) => {
      failure = error;
    });
    this.#socket.on('close', () => onGone(failure));
  }

  /** Resolves when the connection is established; rejects if that fails. */
  opened() {
    return new Promise((resolve, reject) => {
      this.#socket.once('connect', resolve);
      this.#socket.once('close', () => reject(new Error('cannot connect')));
    });
  }

  send(request) {
    this.#socket.write(request);
  }

  close() {
    this.#socket.destroy();
  }
}
