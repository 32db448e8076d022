// A process that executes commands of its parent: lines `NUMBER NAME ARGUMENT` on standard input, answered by `NUMBER JSON`.
import { createInterface } from 'node:readline';

/** Answers each line with the result of `actions[NAME](ARGUMENT)`, the argument being a number, until standard input ends. */
export async function answerLines(actions) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [number, name, argument] = line.split(' ');
    console.log(`${number} ${JSON.stringify(actions[name](Number(argument)))}`);
  }
}
