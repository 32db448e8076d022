/** A worker on Node's IPC channel alone: receives `{index, message}`, sends `{index, reply}`. */
import { handle } from './selected-handler.js';

interface IpcRequest {
  readonly index: number;
  readonly message: never;
}

const context = { worker: { id: Number(process.argv[2]) } };

process.on('message', ({ index, message }: IpcRequest) => {
  try {
    const reply = handle(message, context);
    if (reply instanceof Promise) void reply.then((found: unknown) => answer({ index, reply: found }), (error: unknown) => answer({ index, error: String(error) }));
    else answer({ index, reply });
  } catch (error) {
    answer({ index, error: String(error) });
  }
});
process.on('disconnect', () => process.exit());

function answer(found: object): void {
  process.send!(found);
}

answer({ ready: true });
