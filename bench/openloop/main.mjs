// The generator as a separate process: `node main.mjs PLAN` with the plan as JSON; prints the result as JSON.
import { generate } from './generator.mjs';

console.log(JSON.stringify(await generate(JSON.parse(process.argv[2]))));
process.exit(0); // connections may still be open
