import type { Context } from './context.js';
import type { Handler, Hook } from './handler.js';
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

/** Methods for which `all` is entered into the table of static routes. */
const COMMON_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];
/** The key of an `all` route among a path's methods. */
const ANY = '*';

/** A place in the tree of patterns: one segment after another. */
interface Node {
  readonly statics: Map<string, Node>;
  /** The `:name` below this place; names are per route, so that `/:a/x` and `/:b/y` share it. */
  param: Node | null;
  /** What `*rest` below this place answers with. */
  rest: Map<string, Route> | null;
  /** What a path that ends here answers with, by method. */
  readonly routes: Map<string, Route>;
}

interface Route {
  readonly pattern: string;
  readonly names: readonly string[];
  readonly handler: Handler;
}

/**
 * Chooses a handler by method and path. Patterns are compared segment by segment, and for each segment a literal goes
 * before `:name`, which goes before `*rest`: the order of registration does not matter. `HEAD` falls back to `GET`. A path
 * that no pattern matches gets 404, one that only lacks the method 405 with `Allow`.
 */
export class Router {
  readonly #root: Node = node();
  readonly #static = new Map<string, Handler>();
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

  /** Answers every method that has no route of its own on this path. */
  all<const Path extends string>(path: Path, handler: RouteHandler<Path>): this {
    return this.#add(ANY, path, handler as Handler);
  }

  /** Runs in each worker before its first request; may be asynchronous. A failure keeps the worker from serving. */
  onStart(hook: Hook): this {
    this.startHooks.push(hook);
    return this;
  }

  /** Runs in each worker after its last request, before the process ends. */
  onStop(hook: Hook): this {
    this.stopHooks.push(hook);
    return this;
  }

  /** The router as a handler. @internal */
  compile(): Handler {
    const routes = this.#static;
    return (request, ctx) => {
      const handler = routes.get((request as WireRequest).methodAndPath);
      return handler === undefined ? this.#dispatch(request as WireRequest, ctx) : handler(request, ctx);
    };
  }

  #add(method: string, pattern: string, handler: Handler): this {
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${pattern} is ${typeof handler}, not a function`);
    if (!pattern.startsWith('/')) throw new TypeError(`the pattern ${JSON.stringify(pattern)} must start with /`);
    const segments = pattern.slice(1).split('/');
    const names: string[] = [];
    let place = this.#root;
    let routes: Map<string, Route> | undefined;
    for (const [index, segment] of segments.entries()) {
      const mark = segment[0];
      if (mark === '*') {
        if (index !== segments.length - 1) throw new TypeError(`in ${pattern}, ${segment} must be the last segment`);
        names.push(segment.slice(1) || '*');
        routes = place.rest ??= new Map();
      } else if (mark === ':') {
        if (segment.length === 1) throw new TypeError(`in ${pattern}, a parameter has no name`);
        names.push(segment.slice(1));
        place = place.param ??= node();
      } else {
        let next = place.statics.get(segment);
        if (next === undefined) place.statics.set(segment, (next = node()));
        place = next;
      }
    }
    if (new Set(names).size !== names.length) throw new TypeError(`in ${pattern}, two parameters have one name`);
    routes ??= place.routes;
    const other = routes.get(method);
    if (other !== undefined) {
      const what = method === ANY ? 'all' : method;
      throw new TypeError(`${what} ${pattern} is there already${other.pattern === pattern ? '' : ` as ${other.pattern}`}`);
    }
    routes.set(method, { pattern, names, handler });
    if (names.length === 0) this.#enterStatic(pattern, routes);
    return this;
  }

  /** Static routes are found by one look-up; the key is method and path in one piece. */
  #enterStatic(path: string, routes: Map<string, Route>): void {
    for (const method of new Set([...COMMON_METHODS, ...routes.keys()])) {
      const route = methodOf(routes, method);
      if (route !== undefined && method !== ANY) this.#static.set(method + path, route.handler);
    }
  }

  #dispatch(request: WireRequest, ctx: Context): Answer {
    const segments = request.path.slice(1).split('/').map(decodeSegment);
    const allowed = new Set<string>();
    const values: string[] = [];
    const route = find(this.#root, segments, 0, request.method, values, allowed);
    if (route === undefined) {
      if (allowed.size === 0) throw new HttpError(404, `nothing answers ${request.path}`);
      const allow = [...allowed].sort().join(', ');
      throw new HttpError(405, `${request.path} answers ${allow}, not ${request.method}`, { headers: { allow } });
    }
    if (route.names.length > 0) {
      const params = Object.create(null) as Record<string, string>;
      for (const [index, name] of route.names.entries()) params[name] = values[index]!;
      request.params = params;
    }
    return route.handler(request, ctx);
  }
}

/** A new, empty {@link Router}. */
export function router(): Router {
  return new Router();
}

function node(): Node {
  return { statics: new Map(), param: null, rest: null, routes: new Map() };
}

function methodOf(routes: Map<string, Route>, method: string): Route | undefined {
  return routes.get(method) ?? (method === 'HEAD' ? routes.get('GET') : undefined) ?? routes.get(ANY);
}

/**
 * The most specific route for these segments, from `index` on. Leaves the values of its parameters in `values`; notes the
 * methods of paths that matched without the method in `allowed`.
 */
function find(
  place: Node,
  segments: readonly string[],
  index: number,
  method: string,
  values: string[],
  allowed: Set<string>,
): Route | undefined {
  if (index === segments.length) return pick(place.routes, method, allowed);
  const segment = segments[index]!;
  const literal = place.statics.get(segment);
  let route = literal && find(literal, segments, index + 1, method, values, allowed);
  if (route !== undefined) return route;
  if (place.param !== null && segment !== '') {
    values.push(segment);
    route = find(place.param, segments, index + 1, method, values, allowed);
    if (route !== undefined) return route;
    values.pop();
  }
  if (place.rest === null) return undefined;
  route = pick(place.rest, method, allowed);
  if (route !== undefined) values.push(segments.slice(index).join('/'));
  return route;
}

function pick(routes: Map<string, Route>, method: string, allowed: Set<string>): Route | undefined {
  const route = methodOf(routes, method);
  if (route === undefined) {
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
