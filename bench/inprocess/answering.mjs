// A process that does what its parent asks for: lines `NUMBER NAME ARGUMENT` come on standard input, `NUMBER JSON` goes out for each.
import { createInterface } from 'node:readline';

/** Answers line after line by `actions[NAME](ARGUMENT)`, the argument a number, until standard input ends. */
export async function answerLines(actions) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [number, name, argument] = line.split(' ');
    console.log(`${number} ${JSON.stringify(actions[name](Number(argument)))}`);
  }
}
