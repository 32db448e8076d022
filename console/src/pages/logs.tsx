import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { open, parts } from '../api';
import { useCell } from '../cell';
import { number } from '../format';
import { visible } from '../hooks';
import { place, setQuery } from '../place';
import { Docs, Empty, ErrorBox, Filter, Page } from '../ui';
import { textOf } from '../types';

const LEVELS = ['error', 'warn', 'info', 'debug', 'trace'];
const KEPT = 2_000;
/** Lines that arrive together are drawn together. */
const DRAW_MS = 200;
const RETRY_MS = 2_000;

interface LogLine {
  id: number;
  time: string;
  level: string;
  target: string;
  message: string;
  fields: Record<string, unknown>;
  /** What the text filter looks at. */
  text: string;
}

let lastId = 0;

function parse(text: string): LogLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value !== 'object' || value === null) return undefined;
    const { timestamp, level, target, message, ...fields } = value as Record<string, unknown>;
    lastId += 1;
    return { id: lastId, time: textOf(timestamp), level: textOf(level).toLowerCase(), target: textOf(target).replace(/^forebay::/, ''), message: textOf(message), fields, text: text.toLowerCase() };
  } catch {
    return undefined;
  }
}

/** The log from the last thousand lines on, as the server writes it. */
function useLog(level: string, paused: boolean): { lines: LogLine[]; error: Error | undefined } {
  const [lines, setLines] = useState<LogLine[]>([]);
  const [error, setError] = useState<Error | undefined>(undefined);
  const held = useRef(paused);
  held.current = paused;
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    let waiting: LogLine[] = [];
    let fresh = true;
    const draw = (): void => {
      if (held.current || waiting.length === 0) return;
      const arrived = waiting;
      waiting = [];
      const start = fresh;
      fresh = false;
      setLines((lines) => [...(start ? [] : lines), ...arrived].slice(-KEPT));
    };
    const timer = setInterval(draw, DRAW_MS);
    const follow = async (): Promise<void> => {
      const response = await open('GET', `logs?level=${level}&follow=true`, { signal });
      setError(undefined);
      fresh = true;
      waiting = [];
      let rest = '';
      for await (const part of parts(response)) {
        const texts = (rest + part).split('\n');
        rest = texts.pop() ?? '';
        waiting = [...waiting, ...texts.flatMap((text) => parse(text) ?? [])].slice(-KEPT);
      }
    };
    const run = async (): Promise<void> => {
      while (!signal.aborted) {
        await visible(signal);
        await follow().catch((error: unknown) => !signal.aborted && setError(error as Error));
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
      }
    };
    void run();
    return () => {
      ended.abort();
      clearInterval(timer);
    };
  }, [level]);
  return { lines, error };
}

const request = (fields: Record<string, unknown>): string => textOf(fields['request'] ?? fields['request_id']);

function Line({ line: { time, level, target, message, fields } }: { line: LogLine }): JSX.Element {
  const [open, setOpen] = useState(false);
  const entries = Object.entries(fields);
  const written = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
  return (
    <li class={`level-${level}`}>
      <button type="button" class="plain line" aria-expanded={open} onClick={() => setOpen(!open)}>
        <time title={time}>{time.slice(11, 23)}</time>
        <span class="level">{level}</span>
        <span class="target">{target}</span>
        <span class="message">
          {message}
          {!open && entries.slice(0, 6).map(([name, value]) => <span key={name} class="quiet">{` ${name}=${written(value).slice(0, 80)}`}</span>)}
        </span>
      </button>
      {open && (
        <dl class="fields">
          <div>
            <dt>time</dt>
            <dd>{time}</dd>
          </div>
          {entries.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                {name === 'request' || name === 'request_id' ? (
                  <button type="button" class="link" onClick={() => setQuery({ filter: request(fields) })}>
                    {written(value)}
                  </button>
                ) : (
                  <pre>{typeof value === 'object' ? JSON.stringify(value, null, 2) : written(value)}</pre>
                )}
              </dd>
            </div>
          ))}
        </dl>
      )}
    </li>
  );
}

export function Logs(): JSX.Element {
  const { query } = useCell(place);
  const [paused, setPaused] = useState(false);
  const level = query.get('level') ?? 'info';
  const filter = query.get('filter') ?? '';
  const { lines, error } = useLog(level, paused);
  const list = useRef<HTMLOListElement>(null);
  const following = useRef(true);
  const shown = filter ? lines.filter(({ text }) => text.includes(filter.toLowerCase())) : lines;
  useEffect(() => {
    // Stays at the newest line, unless somebody has scrolled away from it.
    if (following.current && list.current) list.current.scrollTop = list.current.scrollHeight;
  }, [shown.length, lines]);
  const actions = (
    <>
      <select aria-label="Least severe level" value={level} onChange={({ currentTarget }) => setQuery({ level: currentTarget.value })}>
        {LEVELS.map((level) => (
          <option key={level}>{level}</option>
        ))}
      </select>
      <Filter label="Filter lines" value={filter} onChange={(filter) => setQuery({ filter })} />
      <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
        {paused ? 'Go on' : 'Pause'}
      </button>
    </>
  );
  return (
    <Page title="Logs" about={`${paused ? 'Paused' : 'Live'} · ${number(shown.length)} of ${number(lines.length)} lines, the last ${number(KEPT)} are kept`} actions={actions}>
      <ErrorBox error={error} />
      {shown.length === 0 ? (
        <Empty title={filter ? 'No line matches' : 'Nothing is logged at this level yet'}>
          {filter ? 'The filter looks at the whole line, its fields included.' : 'Lines appear as the server writes them.'} <Docs page="operating/log.md">About the log</Docs>
        </Empty>
      ) : (
        <ol
          class="log"
          ref={list}
          tabIndex={0}
          aria-label="Lines of the log"
          onScroll={({ currentTarget: { scrollTop, clientHeight, scrollHeight } }) => (following.current = scrollHeight - scrollTop - clientHeight < 40)}
        >
          {shown.map((line) => (
            <Line key={line.id} line={line} />
          ))}
        </ol>
      )}
    </Page>
  );
}
