import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get, ServerLost } from './api';

const LOST_RETRY_MS = 2_000;

export interface Poll<T> {
  /** The last answer; it stays while later ones fail. */
  data: T | undefined;
  error: Error | undefined;
  /** Asks again at once. */
  reload: () => void;
}

/** Resolves when the page can be seen. */
export function visible(signal: AbortSignal): Promise<void> {
  if (!document.hidden) return Promise.resolve();
  return new Promise((resolve) => document.addEventListener('visibilitychange', () => resolve(), { once: true, signal }));
}

/** Reads a path now and then every so many milliseconds (0: once, and again with each `version`), while the page is visible. Nothing is read without a path. */
export function usePoll<T>(path: string | undefined, everyMs: number, read: (path: string, signal: AbortSignal) => Promise<T> = (path, signal) => get<T>(path, { signal }), version = 0): Poll<T> {
  const [state, setState] = useState<{ path: string | undefined; data: T | undefined; error: Error | undefined }>({ path: undefined, data: undefined, error: undefined });
  const [turn, setTurn] = useState(0);
  const reader = useRef(read);
  reader.current = read;
  useEffect(() => {
    if (path === undefined) return undefined;
    const ended = new AbortController();
    const { signal } = ended;
    const run = async (): Promise<void> => {
      for (;;) {
        await visible(signal);
        let pause = everyMs;
        try {
          const data = await reader.current(path, signal);
          if (signal.aborted) return;
          setState({ path, data, error: undefined });
        } catch (error) {
          if (signal.aborted) return;
          setState((before) => ({ path, data: before.path === path ? before.data : undefined, error: error as Error }));
          if (error instanceof ServerLost) pause = LOST_RETRY_MS;
        }
        if (pause === 0) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
        if (signal.aborted) return;
      }
    };
    void run();
    return () => ended.abort();
  }, [path, everyMs, turn, version]);
  const reload = useCallback(() => setTurn((turn) => turn + 1), []);
  const current = state.path === path;
  return { data: current ? state.data : undefined, error: current ? state.error : undefined, reload };
}

export interface Action<A extends unknown[]> {
  run: (...given: A) => void;
  busy: boolean;
  error: Error | undefined;
}

/** Work that a click starts: one at a time, with its error. */
export function useAction<A extends unknown[]>(work: (...given: A) => Promise<void>): Action<A> {
  const [state, setState] = useState<{ busy: boolean; error: Error | undefined }>({ busy: false, error: undefined });
  const busy = useRef(false);
  const run = (...given: A): void => {
    if (busy.current) return;
    busy.current = true;
    setState({ busy: true, error: undefined });
    work(...given)
      .then(() => setState({ busy: false, error: undefined }))
      .catch((error: unknown) => setState({ busy: false, error: error instanceof Error ? error : new Error(String(error)) }))
      .finally(() => (busy.current = false));
  };
  return { run, ...state };
}

/** A value kept in the browser for the next visit. */
export function useKept<T>(name: string, initial: T): [T, (value: T) => void] {
  const key = `forebay-${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = localStorage.getItem(key);
      return kept === null ? initial : (JSON.parse(kept) as T);
    } catch {
      return initial;
    }
  });
  const keep = useCallback(
    (value: T) => {
      setValue(value);
      try {
        localStorage.setItem(key, JSON.stringify(value));
      } catch {
        // Without room in the browser it lasts as long as the page.
      }
    },
    [key],
  );
  return [value, keep];
}
