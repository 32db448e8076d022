/** Proxies that make nodes look like objects: `person[1].firstName`, `delete person[1].tags`, `person.counter++`. */
import type { GlsNode } from './node.js';

/** Members of nodes that `_name` does not reach. */
const HIDDEN = new Set(['constructor', 'proxy']);
/** Array methods that change the array, and so write to the store. */
const CHANGING = new Set(['copyWithin', 'fill', 'pop', 'push', 'reverse', 'shift', 'sort', 'splice', 'unshift']);

/** A proxy for a node. */
export function proxyOf(node: GlsNode): unknown {
  const isArray = node.isArray;
  return new Proxy(isArray ? [] : {}, {
    get(_, property) {
      if (typeof property === 'symbol') return ofSymbol(node, property);
      const own = ownMember(node, property);
      if (own !== undefined) return own.value;
      if (isArray) return ofArray(node, property);
      return node.$(property).proxy as unknown;
    },

    set(_, property, value: unknown) {
      if (typeof property === 'symbol') return false;
      if (value !== undefined) child(node, property, isArray).document = value;
      return true;
    },

    deleteProperty(_, property) {
      if (typeof property === 'symbol') return false;
      child(node, property, isArray).delete();
      return true;
    },

    has(_, property) {
      return typeof property === 'string' && child(node, property, isArray).exists;
    },

    ownKeys() {
      const keys = [...node.stored.keys()];
      return isArray ? [...keys, 'length'] : keys;
    },

    getOwnPropertyDescriptor(_, property) {
      if (typeof property === 'symbol') return undefined;
      // The array behind the proxy has this property, and a proxy must report it as it is.
      if (isArray && property === 'length') return { value: node.length, writable: true, enumerable: false, configurable: false };
      const found = child(node, property, isArray);
      return found.exists ? { value: found.value as unknown, writable: true, enumerable: true, configurable: true } : undefined;
    },
  });
}

function child(node: GlsNode, property: string, isArray: boolean): GlsNode {
  return isArray && /^\d+$/.test(property) ? node._(property) : node.$(property);
}

function ofSymbol(node: GlsNode, symbol: symbol): unknown {
  if (symbol === Symbol.toPrimitive) {
    return () => {
      const value: unknown = node.value;
      return value === '' || (typeof value === 'object' && value !== null) ? 0 : value;
    };
  }
  if (symbol === Symbol.iterator) {
    const values = node.properties;
    return values[Symbol.iterator].bind(values);
  }
  return undefined;
}

/** `valueOf`, and members of the node with a `_` in front of their name. */
function ownMember(node: GlsNode, property: string): { value: unknown } | undefined {
  if (property === '_node') return { value: node };
  if (property === '_get') return { value: node.value };
  if (property === 'valueOf') return { value: () => node.value as unknown };
  const name = property.slice(1);
  if (property[0] !== '_' || HIDDEN.has(name) || !(name in node) || name in Object.prototype) return undefined;
  const member = (node as unknown as Record<string, unknown>)[name];
  if (typeof member !== 'function') return { value: member };
  return { value: (...args: unknown[]): unknown => member.apply(node, args) };
}

/** A property of an array's proxy: its length, an array method, or an element. */
function ofArray(node: GlsNode, property: string): unknown {
  if (property === 'length') return node.length;
  if (property === 'constructor') return undefined;
  if (Object.hasOwn(Array.prototype, property)) {
    return (...args: unknown[]): unknown => {
      const run = (list: unknown) => (list as Record<string, (...args: unknown[]) => unknown>)[property]!(...args);
      if (CHANGING.has(property)) return node.changeArray(run);
      const list: unknown = node.document;
      return Array.isArray(list) ? run(list) : undefined;
    };
  }
  return child(node, property, true).value as unknown;
}
