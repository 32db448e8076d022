// A lap of Redis, started by ../redis.mjs without any file: sets in pipelines of a hundred, gets one by one, over TCP on the loopback.
// CPU time is that of this process and of the server.
import { each, expect, lap, lastName, name, plan } from '../../inprocess/lap.mjs';
import { treeCpu_us } from '../../proc.mjs';
import { connectRedis, encode } from '../resp.mjs';

const PIPELINED = 100;
const { port, pid } = plan.server;
const redis = await connectRedis(port);
const key = (id) => `Person:data:${id}:firstName`;
const ids = [];
each((id) => ids.push(id));

await lap(
  {
    set: async (pass) => {
      for (let index = 0; index < ids.length; index += PIPELINED) {
        const batch = ids.slice(index, index + PIPELINED);
        const replies = await redis.ask(batch.map((id) => encode('SET', key(id), name(id, pass))).join(''), batch.length);
        expect(replies.length === batch.length && replies.every((reply) => reply === 'OK'));
      }
    },
    get: async () => {
      for (const id of ids) {
        const replies = await redis.ask(encode('GET', key(id)), 1);
        expect(replies.length === 1 && replies[0] === lastName(id));
      }
    },
  },
  () => treeCpu_us(pid),
);
redis.close();
