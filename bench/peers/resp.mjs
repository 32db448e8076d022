// A minimal Redis client for laps: commands in its protocol (RESP2), which are sent together and answered in order.

import { once } from 'node:events';
import { connect } from 'node:net';

/** Encodes a command; its words are ASCII. */
export const encode = (...words) => `*${words.length}\r\n${words.map((word) => `$${word.length}\r\n${word}\r\n`).join('')}`;

/**
 * Parses complete replies at the start of a text, with null for a missing value; also returns the rest. Throws on an error reply and on
 * anything else.
 */
export function readReplies(text) {
  const replies = [];
  let at = 0;
  for (let end; (end = text.indexOf('\r\n', at)) >= 0; ) {
    const line = text.slice(at + 1, end);
    let next = end + 2;
    if (text[at] === '+') {
      replies.push(line);
    } else if (text[at] === '$' && line === '-1') {
      replies.push(null);
    } else if (text[at] === '$') {
      next += Number(line) + 2;
      if (text.length < next) break;
      replies.push(text.slice(end + 2, next - 2));
    } else {
      throw new Error(`Redis answered ${text.slice(at, end)}`);
    }
    at = next;
  }
  return { replies, rest: text.slice(at) };
}

/** One connection: `ask(commands, count)` sends the text of `count` commands and resolves to their replies. One call at a time. */
export async function connectRedis(port) {
  const socket = connect(port, '127.0.0.1').setNoDelay().setEncoding('latin1');
  await once(socket, 'connect');
  let rest = '';
  let asked = null;
  const fail = (error) => asked?.reject(error);
  socket.on('error', fail);
  socket.on('close', () => fail(new Error('Redis closed the connection')));
  socket.on('data', (text) => {
    try {
      const read = readReplies(rest + text);
      rest = read.rest;
      asked.replies.push(...read.replies);
      if (asked.replies.length >= asked.count) asked.resolve(asked.replies);
    } catch (error) {
      fail(error);
    }
  });
  return {
    ask: (commands, count) =>
      new Promise((resolve, reject) => {
        asked = { count, replies: [], resolve, reject };
        socket.write(commands);
      }),
    close: () => socket.destroy(),
  };
}
