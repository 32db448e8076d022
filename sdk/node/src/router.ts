import type { Context } from './context.js';
import { declaredOf, readsOf, type DeclaredRead } from './declared-reads.js';
import type { Handler, Hook, RoutedHandler } from './handler.js';
import { HttpError, type Answer } from './reply.js';
import type { HttpRequest, WireRequest } from './request.js';

/**
 * The parameters in a pattern: `ParamsOf<'/users/:id/*rest'>` is `{ id: string; rest: string }`; any other string gives
 * `Record<string, string>`.
 */
export type ParamsOf<Path extends string> = string extends Path
  ? Record<string, string>
  : { [Name in ParamNames<Path>]: string };

type ParamNames<Path extends string> = Path extends `${infer Segment}/${infer Rest}`
  ? ParamName<Segment> | ParamNames<Rest>
  : ParamName<Path>;
type ParamName<Segment extends string> = Segment extends `:${infer Name}`
  ? Name
  : Segment extends '*'
    ? '*'
    : Segment extends `*${infer Name}`
      ? Name
      : never;

/** A handler whose `request.params` has exactly the pattern's parameters. */
export type RouteHandler<Path extends string> = (request: HttpRequest<ParamsOf<Path>>, ctx: Context) => Answer;

/** Methods that get their own entry in the lookup tables for an `all` route. */
const COMMON_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** The key of an `all` route among the methods of a path. */
const ANY = '*';

/** A node of the pattern tree; each level is one segment. */
interface Node {
  readonly statics: Map<string, Node>;
  /** The child for `:name`. Names belong to the routes, so `/:a/x` and `/:b/y` share this child. */
  param: Node | null;
  /** Routes for `*rest` below this node, by method. */
  rest: Map<string, Route> | null;
  /** Routes for a path that ends at this node, by method. */
  readonly routes: Map<string, Route>;
}

interface Route {
  readonly pattern: string;
  readonly names: readonly string[];
  readonly Params: ParamsClass;
  readonly handler: Handler;
}

/** A class for the parameter objects of one route. */
type ParamsClass = new () => Record<string, string>;

/**
 * Chooses a handler by method and path, by the same rules as the server's routes. It matches the whole path of the request,
 * not just the part below the server's route.
 *
 * `:name` matches one non-empty segment; a final `*` or `*name` matches the rest of the path, at least a slash:
 * `/static/*` matches `/static/` and everything below. Segments are compared percent-decoded. Literals take precedence over
 * `:name`, and `:name` over `*`, segment by segment from the left: the order of registration does not matter. `HEAD` falls
 * back to `GET`. A path without a matching pattern gets 404, one that only lacks the method 405 with `Allow`.
 */
export class Router {
  readonly #root: Node = node();
  readonly #static = new Map<string, Handler>();
  /** Routes whose only parameter is their last segment, by the method and path in front of it. */
  readonly #lastParam = new Map<string, Route>();
  /** @internal */
  readonly startHooks: Hook[] = [];
  /** @internal */
  readonly stopHooks: Hook[] = [];

  /** Answers `GET`, and `HEAD` where no `head` route does. */
  get<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('GET', path, handler as Handler);
  }

  post<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('POST', path, handler as Handler);
  }

  put<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('PUT', path, handler as Handler);
  }

  patch<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('PATCH', path, handler as Handler);
  }

  delete<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('DELETE', path, handler as Handler);
  }

  head<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('HEAD', path, handler as Handler);
  }

  options<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add('OPTIONS', path, handler as Handler);
  }

  /** Answers every method without a route of its own on this path. */
  all<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add(ANY, path, handler as Handler);
  }

  /** Runs in each worker before its first request; may be asynchronous. If it fails, the worker does not start. */
  onStart(hook: Hook): this {
    this.startHooks.push(hook);
    return this;
  }

  /** Runs in each worker after its last request, before the process ends. */
  onStop(hook: Hook): this {
    this.stopHooks.push(hook);
    return this;
  }

  /** The router as a plain handler function. @internal */
  compile(): RoutedHandler {
    const routes = this.#static;
    const rests = restsOf(this.#root);
    return (request, ctx, head = (request as WireRequest).methodAndPath) => {
      const wire = request as WireRequest;
      const handler = routes.get(head);
      if (handler !== undefined) return handler(request, ctx);
      const slash = head.lastIndexOf('/') + 1;
      let route = this.#lastParam.get(head.slice(0, slash));
      let from = slash;
      if (route === undefined && rests.size > 0) {
        // The longest matching prefix is the most specific route.
        for (; from > 0; from = head.lastIndexOf('/', from - 2) + 1) {
          route = rests.get(head.slice(0, from));
          if (route !== undefined) break;
        }
      }
      if (route === undefined || !wire.isPlainFrom(from)) return this.#dispatch(wire, ctx);
      wire.match(route, from);
      return route.handler(request, ctx);
    };
  }

  /** Declared reads of the routes, except those that another route of the router would answer. @internal */
  declaredReads(): DeclaredRead[] {
    const rests = restsOf(this.#root);
    const literals = [...this.#static.keys(), ...rests.keys()];
    const found: DeclaredRead[] = [];
    for (const [key, { handler }] of rests) {
      const declared = declaredOf(handler);
      for (const read of declared === undefined ? [] : readsOf(declared)) {
        const { head } = read;
        const isHere = head.startsWith(key) && ![...rests.keys()].some((other) => other.length > key.length && head.startsWith(other));
        if (isHere && !literals.some((other) => other.startsWith(head))) found.push(read);
      }
    }
    return found;
  }

  #add(method: string, pattern: string, handler: Handler): this {
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${pattern} is ${typeof handler}, not a function`);
    const names: string[] = [];
    let place = this.#root;
    let routes: Map<string, Route> | undefined;
    for (const { kind, text } of parsePattern(pattern)) {
      if (kind === 'static') {
        let next = place.statics.get(text);
        if (next === undefined) place.statics.set(text, (next = node()));
        place = next;
        continue;
      }
      if (names.includes(text)) throw new TypeError(`in the pattern ${pattern}, parameter ${text} appears twice`);
      names.push(text);
      if (kind === 'param') place = place.param ??= node();
      else routes = place.rest ??= new Map();
    }
    routes ??= place.routes;
    const other = routes.get(method);
    if (other !== undefined) {
      const what = method === ANY ? 'all' : method;
      throw new TypeError(`${what} ${pattern} is there already${other.pattern === pattern ? '' : ` as ${other.pattern}`}`);
    }
    routes.set(method, { pattern, names, Params: paramsClass(), handler });
    const before = pattern.slice(0, pattern.lastIndexOf('/') + 1);
    if (names.length === 0) enter(routes, pattern, (key, route) => this.#static.set(key, route.handler));
    else if (names.length === 1 && pattern === `${before}:${names[0]}`) enter(routes, before, (key, route) => this.#lastParam.set(key, route));
    return this;
  }

  #dispatch(request: WireRequest, ctx: Context): Answer {
    const { method, path } = request;
    // A path that cannot be decoded is rejected wherever the invalid part is.
    if (path.includes('%')) path.split('/').forEach(decodeSegment);
    const values: string[] = [];
    const route = find(this.#root, path, 1, method, values, null);
    if (route === undefined) return this.#refuse(method, path);
    if (route.names.length > 0) {
      const params = new route.Params();
      for (let index = 0; index < values.length; index++) params[route.names[index]!] = values[index]!;
      request.params = params;
    }
    return route.handler(request, ctx);
  }

  #refuse(method: string, path: string): never {
    const allowed = new Set<string>();
    find(this.#root, path, 1, method, [], allowed);
    if (allowed.size === 0) throw new HttpError(404, `nothing answers ${path}`);
    const allow = [...allowed].sort().join(', ');
    throw new HttpError(405, `${path} answers ${allow}, not ${method}`, { headers: { allow } });
  }
}

/**
 * Makes a class whose objects have no inherited members, like those of `Object.create(null)`, but a shape the runtime knows,
 * so that they are created and read several times faster.
 */
function paramsClass(): ParamsClass {
  const Params = function () {} as unknown as ParamsClass;
  Params.prototype = Object.create(null) as object;
  return Params;
}

/** A new, empty {@link Router}. */
export function router(): Router {
  return new Router();
}

interface Segment {
  readonly kind: 'static' | 'param' | 'rest';
  /** The literal text, or the parameter's name. */
  readonly text: string;
}

/** Parses a pattern, by the same rules as the `path` of a route in the server. */
function parsePattern(pattern: string): Segment[] {
  const refuse = (why: string): never => {
    throw new TypeError(`the pattern ${JSON.stringify(pattern)} cannot match: ${why}`);
  };
  if (!pattern.startsWith('/')) refuse('it must start with /');
  if (/[%?#\x00-\x1f\x7f]/.test(pattern)) refuse('write it decoded, without %, query or control characters');
  const texts = pattern.slice(1).split('/');
  return texts.map((text, index) => {
    const last = index === texts.length - 1;
    const name = text.slice(1);
    const isWord = /^[A-Za-z_][A-Za-z0-9_]*$/.test(name);
    if (text.startsWith(':')) {
      if (!isWord) refuse(`${text} needs a name of letters, digits and _ that does not start with a digit`);
      return { kind: 'param', text: name };
    }
    if (text === '*' && last) return { kind: 'rest', text: '*' };
    if (text.startsWith('*') && last) {
      if (!isWord) refuse(`${text} needs a name of letters, digits and _ that does not start with a digit`);
      return { kind: 'rest', text: name };
    }
    if (text.includes('*')) refuse('* may stand only at the start of the last segment');
    if (text === '' && !last) refuse('it has an empty segment');
    if (text === '.' || text === '..') refuse(`paths with the segment ${text} are refused by the server`);
    return { kind: 'static', text };
  });
}

function node(): Node {
  return { statics: new Map(), param: null, rest: null, routes: new Map() };
}

/**
 * Routes that match everything below a literal path that has no `:name` below it, keyed by method and path with its trailing slash. A path
 * that is not literal itself leads to the longest of them.
 */
function restsOf(root: Node): Map<string, Route> {
  const found = new Map<string, Route>();
  /** Returns whether there is a `:name` below `place`. */
  const look = (place: Node, path: string): boolean => {
    let hasParam = place.param !== null;
    for (const [literal, below] of place.statics) hasParam = look(below, `${path}${literal}/`) || hasParam;
    if (place.rest !== null && !hasParam) enter(place.rest, path, (key, route) => found.set(key, route));
    return hasParam;
  };
  look(root, '/');
  return found;
}

/** Adds the routes of a literal path to a lookup table, keyed by method and path, concatenated. */
function enter(routes: Map<string, Route>, path: string, set: (key: string, route: Route) => void): void {
  // Keys are Latin-1: paths with other characters are compared decoded, in the tree.
  if (!/^[\x21-\x7e]+$/.test(path)) return;
  for (const method of new Set([...COMMON_METHODS, ...routes.keys()])) {
    const route = methodOf(routes, method);
    if (route !== undefined && method !== ANY) set(method + path, route);
  }
}

function methodOf(routes: Map<string, Route>, method: string): Route | undefined {
  return routes.get(method) ?? (method === 'HEAD' ? routes.get('GET') : undefined) ?? routes.get(ANY);
}

/**
 * The most specific route for the segments of a path from index `at` on. Pushes the values of its parameters to `values`, and, if
 * `allowed` is given, adds the methods of patterns that matched the path but not the method.
 */
function find(
  place: Node,
  path: string,
  at: number,
  method: string,
  values: string[],
  allowed: Set<string> | null,
): Route | undefined {
  if (at > path.length) return pick(place.routes, method, allowed);
  const slash = path.indexOf('/', at);
  const end = slash < 0 ? path.length : slash;
  const segment = decodeSegment(path.slice(at, end));
  const literal = place.statics.get(segment);
  let route = literal && find(literal, path, end + 1, method, values, allowed);
  if (route !== undefined) return route;
  if (place.param !== null && segment !== '') {
    values.push(segment);
    route = find(place.param, path, end + 1, method, values, allowed);
    if (route !== undefined) return route;
    values.pop();
  }
  if (place.rest === null) return undefined;
  route = pick(place.rest, method, allowed);
  if (route !== undefined) values.push(path.slice(at).split('/').map(decodeSegment).join('/'));
  return route;
}

function pick(routes: Map<string, Route>, method: string, allowed: Set<string> | null): Route | undefined {
  const route = methodOf(routes, method);
  if (route === undefined && allowed !== null) {
    for (const other of routes.keys()) allowed.add(other);
    if (routes.has('GET')) allowed.add('HEAD');
  }
  return route;
}

function decodeSegment(segment: string): string {
  if (!segment.includes('%')) return segment;
  try {
    return decodeURIComponent(segment);
  } catch {
    throw new HttpError(400, `the path has a broken percent-encoding in ${JSON.stringify(segment)}`);
  }
}
