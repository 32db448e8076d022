/** The change feed, which the console reads in pieces: server-sent events, as many as come at once. */
import { ApiError, request } from '../api';
import { exact } from '../json';
import type { Change } from '../types';

/** Commits that are kept. */
export const KEPT = 200;

export interface Piece {
  changes: Change[];
  /** The last change that was looked at. */
  position: number;
}

async function read(since: number | undefined, signal: AbortSignal): Promise<Piece> {
  const { text } = await request('GET', since === undefined ? 'changes' : `changes?since=${since}`, { signal });
  const events = text.split('\n\n').map((event) => new Map(event.split('\n').map((line) => line.split(/: ?(.*)/s, 2) as [string, string])));
  const changes = events.filter((event) => event.get('event') === 'change').map((event) => exact(event.get('data') ?? 'null') as Change);
  const failure = events.find((event) => ['gone', 'failed'].includes(event.get('event') ?? ''));
  if (failure) throw new ApiError(410, 'The change feed has ended', failure.get('data') ?? '');
  return { changes, position: Math.max(since ?? 0, ...events.flatMap((event) => (event.has('id') ? Number(event.get('id')) : []))) };
}

/** Reads the changes after `before`, or the latest ones. */
export async function readChanges(before: Piece | undefined, signal: AbortSignal): Promise<Piece> {
  const from = before ?? { changes: [], position: Math.max(0, (await read(undefined, signal)).position - KEPT) };
  try {
    const { changes, position } = await read(from.position, signal);
    return { changes: [...from.changes, ...changes].slice(-KEPT), position };
  } catch (error) {
    // The log does not reach back that far: what comes from now on is shown.
    if (error instanceof ApiError && error.status === 410) return read(undefined, signal);
    throw error;
  }
}
