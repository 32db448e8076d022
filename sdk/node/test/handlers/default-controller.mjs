// A default controller of WABuR on the SDK: each operation is one call to the model. Run by stdio.test.mjs.
import { json } from '../../dist/index.js';
import { callTql, serve } from '../../dist/stdio/index.js';

const KIND = 'kind';

/** A query value as a TQL operand: a number, or text after a quote. */
const literal = (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text.startsWith("'") ? text : `'${text}`);
const equals = (member, text) => ['EQ', member, literal(text)];

function conditions(kind, query) {
  const pairs = [...query];
  if (pairs.length === 0) return equals(KIND, kind);
  return ['AND', equals(KIND, kind), ...pairs.map(([member, text]) => equals(member, text))];
}

function ask(statement, what) {
  const result = callTql(statement, { timeoutMs: 500 });
  if (result.code !== 0) throw Object.assign(new Error(`error on ${what}. ${result.error}`), { name: 'WAB::Error' });
  return result;
}

const operations = {
  async PUT(kind, _, request) {
    const where = request.query.size > 0 ? { where: conditions(kind, request.query) } : {};
    return ask({ ...where, insert: await request.json() }, `${kind} create`);
  },
  GET(kind, reference, request) {
    if (reference === 'list') {
      const select = { ref: '$ref', ...Object.fromEntries(request.query) };
      return ask({ where: equals(KIND, kind), select }, `${kind} read`);
    }
    if (reference !== undefined) {
      const { results } = ask({ where: Number(reference), select: '$' }, `get of ${reference}`);
      return { code: 0, results: results.map((data) => ({ id: Number(reference), data })) };
    }
    return ask({ where: conditions(kind, request.query), select: { id: '$ref', data: '$' } }, `${kind} read`);
  },
  async POST(kind, reference, request) {
    const where = reference === undefined ? conditions(kind, request.query) : Number(reference);
    return ask({ where, update: await request.json() }, `${kind} update`);
  },
  DELETE(kind, reference, request) {
    const where = reference === undefined ? conditions(kind, request.query) : Number(reference);
    return ask({ where, delete: null }, `${kind} delete`);
  },
};

async function controller(request) {
  const operation = operations[request.method];
  // A message without an operation is echoed.
  if (operation === undefined) return request.json();
  const [kind, reference] = request.path.split('/').slice(1);
  try {
    return json(await operation(kind, reference, request));
  } catch (error) {
    return { code: -1, error: `${error.name}: ${error.message}` };
  }
}

serve(controller);
