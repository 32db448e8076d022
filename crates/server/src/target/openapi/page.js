// Shows the OpenAPI document of this address. Texts of the document become text nodes, never HTML.
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength', 'pattern', 'minItems', 'maxItems', 'uniqueItems', 'minProperties', 'maxProperties', 'contentMediaType'];
const SAMPLE_DEPTH_MAX = 6;

const main = document.querySelector('main');
const form = document.querySelector('form');
const filter = form.querySelector('input');
let api;

/** An element; attributes that are false or undefined are left out, and so are such children. */
function h(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (typeof value === 'function') element.addEventListener(key, value);
    else if (value !== undefined && value !== false) element.setAttribute(key, value === true ? '' : value);
  }
  element.append(...children.flat(9).filter((child) => child !== undefined && child !== false && child !== ''));
  return element;
}

const code = (text) => h('code', null, text);

/** Paragraphs, lists and code of Markdown; the rest stays as it is written. */
function prose(text) {
  if (!text) return [];
  const spans = (line) => line.split(/(`[^`]+`)/).map((part) => (part.length > 2 && part.startsWith('`') ? code(part.slice(1, -1)) : part));
  return text.trim().split(/\n\s*\n/).map((block) => {
    const lines = block.split('\n');
    if (lines.every((line) => /^\s*[-*] /.test(line))) return h('ul', null, lines.map((line) => h('li', null, spans(line.replace(/^\s*[-*] /, '')))));
    return h('p', null, spans(block));
  });
}

/** What a pointer such as `#/a/b` leads to, from a root. */
function at(root, pointer) {
  const keys = pointer.slice(1).split('/').slice(1).map((key) => decodeURIComponent(key).replaceAll('~1', '/').replaceAll('~0', '~'));
  return keys.reduce((value, key) => value?.[key], root);
}

/** Follows references. A schema with an id is the root of those in it. */
function resolve(value, root = api) {
  let name;
  for (let step = 0; step < 16 && typeof value?.$ref === 'string'; step += 1) {
    const { $ref, ...beside } = value;
    const target = $ref.startsWith('#') ? at(root, $ref) : undefined;
    name = $ref.split('/').pop();
    if (target === undefined) return { value: beside, root, name };
    value = typeof target === 'object' ? { ...target, ...beside } : target;
  }
  return { value, root: value?.$id ? value : root, name };
}

function typeOf(schema, name) {
  if (schema === undefined || schema === true || Object.keys(schema).length === 0) return name ?? 'anything';
  if (schema === false) return 'nothing';
  const type = [schema.type ?? []].flat().join(' or ') || (schema.properties ? 'object' : schema.items ? 'array' : (schema.anyOf ?? schema.oneOf) ? 'alternatives' : '');
  return [name, type, schema.format && `(${schema.format})`].filter(Boolean).join(' ');
}

function facts(schema) {
  if (typeof schema !== 'object') return [];
  const said = BOUNDS.filter((key) => schema[key] !== undefined).map((key) => [`${key} `, code(schema[key])]);
  if (schema.const !== undefined) said.push(['always ', code(JSON.stringify(schema.const))]);
  if (schema.enum) said.push(['one of ', schema.enum.map((value, index) => [index > 0 && ', ', code(JSON.stringify(value))])]);
  if (schema.default !== undefined) said.push(['default ', code(JSON.stringify(schema.default))]);
  return said.map((fact) => h('span', { class: 'fact' }, fact));
}

/** The schemas right below a schema: label, schema, and whether the member is required. */
function below(schema) {
  if (typeof schema !== 'object') return [];
  const required = new Set(schema.required);
  const found = Object.entries(schema.properties ?? {}).map(([name, value]) => [name, value, required.has(name)]);
  for (const [pattern, value] of Object.entries(schema.patternProperties ?? {})) found.push([`/${pattern}/`, value]);
  if (typeof schema.additionalProperties === 'object') found.push(['any name', schema.additionalProperties]);
  if (typeof schema.items === 'object') found.push(['each', schema.items]);
  (schema.prefixItems ?? []).forEach((value, index) => found.push([String(index), value]));
  for (const [key, label] of [['allOf', 'all of'], ['anyOf', 'any of'], ['oneOf', 'one of']]) for (const value of schema[key] ?? []) found.push([label, value]);
  for (const key of ['not', 'if', 'then', 'else']) if (schema[key] !== undefined) found.push([key, schema[key]]);
  return found;
}

/** A schema as a tree. Branches are made when they are opened, so that a schema may contain itself. */
function tree(label, given, givenRoot, required, depth = 0) {
  const { value: schema, root, name } = resolve(given, givenRoot);
  const children = below(schema);
  const type = typeOf(schema, name);
  const head = [label && code(label), required && h('b', { title: 'required' }, '*'), type && h('i', null, type), facts(schema)];
  const description = prose(schema?.description);
  if (children.length === 0) return h('div', { class: 'leaf' }, head, description);
  const fill = () => [description, children.map((child) => tree(child[0], child[1], root, child[2], depth + 1))];
  return fold(h('summary', null, head), fill, depth < 1, 'branch');
}

/** Details whose content is made when they are opened. */
function fold(summary, fill, open, kind) {
  const details = h('details', { class: kind, toggle: () => details.open && details.childElementCount === 1 && details.append(h('div', null, fill())) }, summary);
  if (open) {
    details.append(h('div', null, fill()));
    details.open = true;
  }
  return details;
}

/** A value that matches a schema, or nearly. */
function sample(given, givenRoot, depth = 0) {
  const { value: schema, root } = resolve(given, givenRoot);
  if (typeof schema !== 'object' || depth > SAMPLE_DEPTH_MAX) return null;
  const known = [schema.const, schema.default, schema.example, schema.examples?.[0], schema.enum?.[0]].find((value) => value !== undefined);
  if (known !== undefined) return known;
  const inner = (value) => sample(value, root, depth + 1);
  const merged = Object.assign({}, ...(schema.allOf ?? []).map(inner).filter((value) => value && typeof value === 'object'));
  const other = (schema.anyOf ?? schema.oneOf)?.[0];
  const type = [schema.type].flat()[0] ?? (schema.properties || schema.allOf ? 'object' : schema.items ? 'array' : undefined);
  if (type === 'object') {
    const names = schema.required ?? Object.keys(schema.properties ?? {});
    return { ...merged, ...(other && inner(other)), ...Object.fromEntries(names.map((name) => [name, inner(schema.properties?.[name])])) };
  }
  if (type === 'array') return schema.items === undefined ? [] : [inner(schema.items)];
  if (type === 'string') return { date: '2026-01-31', 'date-time': '2026-01-31T12:00:00Z', uuid: '00000000-0000-4000-8000-000000000000', email: 'ada@example.org', uri: 'https://example.org/' }[schema.format] ?? 'text';
  if (type === 'integer' || type === 'number') return schema.minimum ?? 1;
  if (type === 'boolean') return true;
  return other === undefined ? null : inner(other);
}

const schemeOf = (name) => api.components?.securitySchemes?.[name] ?? {};

function schemeText(name, scopes) {
  const { type, scheme, bearerFormat, in: place, name: key } = schemeOf(name);
  const what = {
    http: scheme === 'basic' ? 'user and password' : `bearer token${bearerFormat ? ` (${bearerFormat})` : ''}`,
    apiKey: `key in the ${place} ${key}`,
    mutualTLS: 'client certificate',
    openIdConnect: 'login with OpenID Connect',
    oauth2: 'OAuth 2',
  }[type] ?? 'credentials';
  return [code(name), ` ${what}`, scopes.length > 0 && [', scopes ', scopes.map((scope, index) => [index > 0 && ', ', code(scope)])]];
}

/** The arguments of curl that prove who the client is. */
function credentials(name) {
  const { type, scheme, in: place, name: key } = schemeOf(name);
  if (type === 'mutualTLS') return '--cert CLIENT.pem --key CLIENT.key';
  if (type === 'apiKey') return place === 'cookie' ? `-b ${quoted(`${key}=VALUE`)}` : `-H ${quoted(`${key}: KEY`)}`;
  return scheme === 'basic' ? "-u 'USER:PASSWORD'" : "-H 'Authorization: Bearer TOKEN'";
}

const quoted = (text) => `'${String(text).replaceAll("'", "'\\''")}'`;
const placeholder = (name) => name.toUpperCase().replaceAll(/[^A-Z0-9]+/g, '_');

function curl({ method, path, servers, parameters, operation }) {
  const { url = '/', variables = {} } = servers?.[0] ?? api.servers?.[0] ?? {};
  const base = new URL(url.replaceAll(/\{([^}]+)\}/g, (_, name) => variables[name]?.default ?? name), location.href).href.replace(/\/$/, '');
  const required = (place) => parameters.filter((parameter) => parameter.in === place && parameter.required);
  const query = required('query').map(({ name }) => `${encodeURIComponent(name)}=${placeholder(name)}`).join('&');
  const target = path.replaceAll(/\{([^}]+)\}/g, (_, name) => placeholder(name));
  const lines = [{ get: 'curl', any: 'curl', head: 'curl -I' }[method] ?? `curl -X ${method.toUpperCase()}`];
  lines[0] += ` ${quoted(base + target + (query && `?${query}`))}`;
  lines.push(...Object.keys(operation.security?.[0] ?? {}).map(credentials));
  lines.push(...required('header').map(({ name }) => `-H ${quoted(`${name}: ${placeholder(name)}`)}`));
  const [type, media] = Object.entries(resolve(operation.requestBody).value?.content ?? {})[0] ?? [];
  if (type === '*/*') lines.push('--data-binary @FILE');
  else if (type) lines.push(`-H ${quoted(`Content-Type: ${type}`)}`, `-d ${quoted(type.endsWith('json') ? JSON.stringify(sample(media.schema ?? {}), null, 2) : 'text')}`);
  return lines.join(' \\\n  ');
}

function example(entry) {
  const text = curl(entry);
  const pre = h('pre', { tabindex: 0 }, text);
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      // Without TLS there is no clipboard.
      getSelection().selectAllChildren(pre);
      button.textContent = 'Selected';
    }
  };
  const button = h('button', { type: 'button', class: 'copy', click: copy }, 'Copy');
  return h('section', { class: 'example' }, h('h4', null, 'Example'), button, pre);
}

const row = (name, about, ...rest) => h('div', { class: 'row' }, h('div', null, name), h('div', null, about, rest));

function section(title, rows) {
  return rows.length > 0 && h('section', null, h('h4', null, title), rows);
}

function contents(content) {
  return Object.entries(content ?? {}).map(([type, { schema }]) => (schema === undefined ? h('div', { class: 'leaf' }, h('i', null, type)) : [h('div', { class: 'leaf' }, h('i', null, type)), tree('', schema)]));
}

function details(entry) {
  const { parameters, operation, servers } = entry;
  const body = resolve(operation.requestBody).value;
  const responses = Object.entries(operation.responses ?? {}).map(([status, given]) => {
    const { description, headers = {}, content } = resolve(given).value;
    const shown = () => [section('Headers', Object.entries(headers).map(([name, header]) => row(code(name), prose(resolve(header).value.description)))), contents(content)];
    const isLong = Object.keys(headers).length + Object.keys(content ?? {}).length > 0;
    const about = h('summary', null, prose(description));
    return row(h('span', { class: `status s${status[0]}` }, status), isLong ? fold(about, shown, false, 'branch') : prose(description));
  });
  return [
    prose(operation.description ?? entry.item.description),
    entry.method === 'any' && prose('The application behind says which methods it answers, and with what.'),
    servers && h('p', null, 'Only at the host ', servers.map(({ url }) => code(url.replace('//', '')))),
    section('Access', (operation.security ?? []).map((requirement, index) => {
      const schemes = Object.entries(requirement);
      return h('p', null, index > 0 && 'or ', schemes.length === 0 ? 'without credentials' : schemes.map(([name, scopes], at) => [at > 0 && ' and ', schemeText(name, scopes)]));
    })),
    section('Parameters', parameters.map((parameter) => {
      const { name, in: place, required, description, schema } = parameter;
      return row([code(name), required && h('b', { title: 'required' }, '*'), h('i', null, `${place}, ${typeOf(resolve(schema).value)}`)], prose(description), facts(resolve(schema).value ?? {}));
    })),
    body && section('Body', [prose(body.description), contents(body.content)]),
    section('Responses', responses),
    example(entry),
  ];
}

/** All operations, and the paths whose methods are not known. */
function entries() {
  const found = [];
  for (const [key, item] of Object.entries(api.paths ?? {})) {
    const path = key.split('#')[0];
    const methods = METHODS.filter((method) => item[method]);
    for (const method of methods.length > 0 ? methods : ['any']) {
      const operation = item[method] ?? { tags: item['x-tags'] };
      const own = operation.parameters ?? [];
      const shared = (item.parameters ?? []).filter((parameter) => !own.some(({ name, in: place }) => name === parameter.name && place === parameter.in));
      const entry = { path, method, item, operation, parameters: [...shared, ...own].map((parameter) => resolve(parameter).value), servers: operation.servers ?? item.servers };
      entry.summary = operation.summary ?? item.summary ?? '';
      entry.id = operation.operationId ?? `any${key}`;
      entry.words = [method, path, readable(path), entry.summary, ...(operation.tags ?? [])].join(' ').toLowerCase();
      found.push(entry);
    }
  }
  return found;
}

function readable(path) {
  try {
    return decodeURI(path);
  } catch {
    return path;
  }
}

function line(entry) {
  const { method, path, summary, operation, id } = entry;
  const steps = readable(path).split(/(\{[^}]+\})/).map((part) => (part.startsWith('{') ? h('var', null, part) : part));
  const isOpen = (operation.security ?? [{}]).some((requirement) => Object.keys(requirement).length === 0);
  const label = h('summary', null, h('span', { class: `method ${method}` }, method.toUpperCase()), h('code', null, steps), h('span', { class: 'about' }, summary), !isOpen && h('span', { class: 'lock', title: 'needs credentials' }, 'auth'));
  entry.element = fold(label, () => details(entry), false, 'operation');
  entry.element.id = id;
  entry.element.addEventListener('toggle', () => entry.element.open && history.replaceState(null, '', `#${encodeURIComponent(id)}`));
  return entry.element;
}

function show(all) {
  const { title, version, description } = api.info;
  document.title = title;
  document.querySelector('#about').append(h('h1', null, title, ' ', h('small', null, version)), ...prose(description), h('a', { href: location.pathname, download: 'openapi.json', type: 'application/json' }, 'openapi.json'));
  const groups = Map.groupBy(all, ({ operation }) => operation.tags?.[0] ?? '');
  const nav = document.querySelector('nav');
  const names = [...groups.keys()].sort((one, other) => (one === '') - (other === ''));
  const sections = names.map((name, index) => {
    const heading = names.length > 1 && h('h2', { id: `group-${index}` }, name || 'Other');
    nav.append(h('a', { href: `#group-${index}` }, name || 'Other', h('small', null, groups.get(name).length)));
    return h('section', { class: 'group' }, heading, groups.get(name).map(line));
  });
  main.replaceChildren(...sections);
  nav.hidden = names.length < 2;
  form.hidden = false;
}

function select(all) {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  let count = 0;
  for (const entry of all) {
    entry.element.hidden = !words.every((word) => entry.words.includes(word));
    count += !entry.element.hidden;
  }
  for (const group of main.children) group.hidden = [...group.children].every((child) => child.hidden || child.tagName === 'H2');
  form.querySelector('output').textContent = words.length === 0 ? `${all.length} operations` : `${count} of ${all.length}`;
}

/** Goes to what the address names. */
function follow(all) {
  const hash = location.hash.slice(1);
  const entry = all.find(({ id }) => encodeURIComponent(id) === hash);
  if (entry) entry.element.open = true;
  const element = entry?.element ?? document.getElementById(hash);
  element?.scrollIntoView();
}

/** Moves between operations by the arrow keys. */
function walk(event) {
  if (event.key === '/' && event.target !== filter) {
    event.preventDefault();
    filter.focus();
  }
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (!step || !event.target.matches('.operation > summary, input')) return;
  const lines = [...main.querySelectorAll('.operation:not([hidden]) > summary')];
  const next = lines[lines.indexOf(event.target) + step];
  if (next === undefined && event.target === filter) return;
  event.preventDefault();
  (next ?? filter).focus();
}

try {
  const response = await fetch(location.pathname, { headers: { accept: 'application/json' } });
  if (!response.ok) throw new Error(`the server answers ${response.status}`);
  api = await response.json();
  const all = entries();
  show(all);
  select(all);
  filter.addEventListener('input', () => select(all));
  form.addEventListener('submit', (event) => event.preventDefault());
  addEventListener('keydown', walk);
  addEventListener('hashchange', () => follow(all));
  follow(all);
} catch (error) {
  main.replaceChildren(h('p', { role: 'alert' }, `The document cannot be shown: ${error.message}. `, h('a', { href: location.href }, 'Try again')));
}
main.removeAttribute('aria-busy');
