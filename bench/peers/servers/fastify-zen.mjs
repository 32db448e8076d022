// Fastify evaluating decisions with GoRules' engine in its own process; each decision is loaded once: POST /decision/NAME with the input as
// body.
import { readFileSync } from 'node:fs';
import Fastify from 'fastify';
import { ZenEngine } from '@gorules/zen-engine';

const [folder, ...names] = process.argv.slice(2);
const engine = new ZenEngine();
const decisions = new Map(names.map((name) => [name, engine.createDecision(readFileSync(`${folder}/${name}.json`))]));

const app = Fastify({ logger: false });
app.post('/decision/:name', async (request) => decisions.get(request.params.name).evaluate(request.body));
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`);
