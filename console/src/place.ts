/** Where in the console one is: `#/store/Person/1?tab=changes`. */
import { Cell } from './cell';

export interface Place {
  /** The name of the page, then what of it. */
  path: string[];
  query: URLSearchParams;
}

function read(): Place {
  const [path = '', query = ''] = location.hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const decode = (segment: string): string => {
    try {
      return decodeURIComponent(segment);
    } catch {
      return segment;
    }
  };
  return { path: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export const place = new Cell<Place>(read());
addEventListener('hashchange', () => (place.value = read()));

/** The address of a place, for links. Parameters without a value are left out. */
export function link(path: readonly (string | number)[], query: Record<string, string | number | undefined> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const parameters = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${path.map((segment) => encodeURIComponent(segment)).join('/')}${parameters && `?${parameters}`}`;
}

/** Changes parameters of the place without a step in the browser's history. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const { path, query } = place.value;
  const address = link(path, { ...Object.fromEntries(query), ...changes });
  if (address === location.hash) return;
  history.replaceState(null, '', address);
  place.value = read();
}
