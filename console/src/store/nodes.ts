/** Nodes of the store, as a route to the store answers them. */
import { ApiError, open, parts, request, storePath } from '../api';
import { exact } from '../json';

/** Children in a page. */
const PAGE = 50;
/** Longest document that is shown, in characters. */
const DOCUMENT_MAX = 1 << 20;

export interface Child {
  key: string;
  value: unknown;
}

export interface ChildPage {
  children: Child[];
  /** The query of the next page, if there is one. */
  next: string | undefined;
}

export interface Document {
  /** As it was written, with all digits. */
  text: string;
  etag: string;
  /** Time until it expires, such as `3599982ms`. */
  ttl: string | undefined;
}

/** The query of the first page: of all children, or of those that an index finds. */
export function firstPage(conditions: readonly string[] = [], index = ''): string {
  const query = new URLSearchParams({ limit: String(PAGE), depth: '1' });
  for (const condition of conditions) query.append('where', condition);
  if (index) query.set('index', index);
  return `?${query}`;
}

export async function readChildren(path: readonly string[], query: string, signal: AbortSignal): Promise<ChildPage> {
  const { text, headers } = await request('GET', storePath(path) + query, { signal });
  const next = /<([^>]*)>;\s*rel="next"/.exec(headers.get('link') ?? '')?.[1];
  const children = exact(text);
  // A node without children has its value in their place.
  return { children: Array.isArray(children) ? (children as Child[]) : [], next };
}

/** A document, with the tag that later writes name. */
export async function readDocument(path: readonly string[], signal?: AbortSignal): Promise<Document> {
  const response = await open('GET', storePath(path), signal ? { signal } : {});
  let text = '';
  for await (const part of parts(response)) {
    text += part;
    if (text.length > DOCUMENT_MAX) throw new ApiError(413, 'Too long to show', 'The document is longer than 1 MiB. Its children are listed below.');
  }
  return { text, etag: response.headers.get('etag') ?? '', ttl: response.headers.get('forebay-ttl') ?? undefined };
}

export const isContainer = (value: unknown): boolean => typeof value === 'object' && value !== null && !('rawJSON' in value);
