// The generator as a process of its own: `node main.mjs PLAN`, the plan as JSON; prints the outcome as JSON.
import { generate } from './generator.mjs';

console.log(JSON.stringify(await generate(JSON.parse(process.argv[2]))));
process.exit(0); // connections may still be open
