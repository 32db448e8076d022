/** The timeline of a request, and where its time goes, as `forebay explain` has them. */
import type { JSX } from 'preact';
import { duration, number, share } from './format';
import { link } from './place';
import type { Span, Timeline } from './types';

/** Spans drawn at once. */
const SPANS_MAX = 200;

const PHASES: [name: string, meaning: string][] = [
  ['front', 'the head is read and the route found'],
  ['queue', 'waiting for a worker or a thread'],
  ['code', 'the code of the handler runs'],
  ['handler', 'in the handler but not running: the way to a worker and back, or another wait'],
  ['upstream', 'another server has the request and has not answered'],
  ['sql wait', 'statements wait for a place or a connection'],
  ['sql send', 'statements are being sent'],
  ['sql server', 'PostgreSQL has not begun to answer'],
  ['sql rows', 'rows are coming and are decoded'],
  ['sql hand-over', 'rows are decoded, their caller is not awake yet'],
  ['between', 'none of these: threads are being woken, or run other tasks'],
  ['write', 'the response is made and written'],
];
/** Which of several phases at the same time is charged. */
const PRECEDENCE = ['code', 'sql server', 'sql rows', 'sql send', 'sql wait', 'sql hand-over', 'queue', 'handler', 'upstream', 'write', 'front'];

/** The phases of a span, one after the other. */
function phases({ kind, from_us: from, took_us: took, parts = [] }: Span): [name: string, from: number, until: number][] {
  if (kind !== 'statement') return [[kind === 'running' ? 'code' : kind, from, from + took]];
  let at = from;
  return parts.map(({ name, took_us }) => [`sql ${name}`, at, (at += took_us)]);
}

/** The time of a request in each phase: every moment is charged to one, so that they add up. */
export function charge({ spans, total_us: total }: Timeline): Map<string, number> {
  const changes = spans.flatMap(phases).flatMap(([name, from, until]): [number, string, number][] => {
    const clamp = (us: number): number => Math.min(Math.max(us, 0), total);
    return PRECEDENCE.includes(name) && until > from ? [[clamp(from), name, 1], [clamp(until), name, -1]] : [];
  });
  changes.sort(([one], [other]) => one - other);
  const charged = new Map<string, number>();
  const running = new Map<string, number>();
  let at = 0;
  for (const [time, name, change] of [...changes, [total, '', 0] as const]) {
    const foremost = PRECEDENCE.find((phase) => (running.get(phase) ?? 0) > 0) ?? 'between';
    charged.set(foremost, (charged.get(foremost) ?? 0) + time - at);
    at = time;
    running.set(name, (running.get(name) ?? 0) + change);
  }
  return charged;
}

const tone = (phase: string): string => `phase ${phase.replace(/ .*/, '')}`;
const percent = (part: number, whole: number): string => `${whole > 0 ? (part / whole) * 100 : 0}%`;

/** The phases of a request in a line. */
export function PhaseBar({ timeline }: { timeline: Timeline }): JSX.Element {
  const charged = charge(timeline);
  return (
    <span class="phases" aria-hidden="true">
      {PHASES.map(([name]) => (charged.get(name) ?? 0) > 0 && <i key={name} class={tone(name)} style={{ width: percent(charged.get(name) ?? 0, timeline.total_us) }} />)}
    </span>
  );
}

function SpanRow({ span, total }: { span: Span; total: number }): JSX.Element {
  const parts = (span.parts ?? []).map(({ name, took_us }) => `${name} ${duration(took_us)}`).join(', ');
  return (
    <tr>
      <th scope="row">{span.kind}</th>
      <td class="right">{duration(span.from_us)}</td>
      <td class="right">{duration(span.took_us)}</td>
      <td class="bars">
        <span class="track">
          {phases(span).map(([name, from, until], at) => (
            <i key={at} class={tone(name)} style={{ left: percent(from, total), width: percent(until - from, total) }} />
          ))}
        </span>
      </td>
      <td class="detail">
        <code>{span.detail}</code>
        {parts && <span class="quiet"> {parts}</span>}
      </td>
    </tr>
  );
}

export function TimelineView({ timeline }: { timeline: Timeline }): JSX.Element {
  const { spans, total_us: total, spans_left_out } = timeline;
  const charged = charge(timeline);
  const left = spans_left_out + Math.max(0, spans.length - SPANS_MAX);
  return (
    <div class="timeline">
      <p>
        <span class={timeline.status >= 500 || timeline.status === 0 ? 'status bad' : 'status'}>{timeline.status}</span> <code>{`${timeline.method} ${timeline.target}`}</code>{' '}
        <span class="quiet">
          {number(timeline.bytes)} B after {duration(total)}, route <a href={link(['route', timeline.route])}>{timeline.route}</a>, request <a href={link(['logs'], { filter: timeline.request_id })}>{timeline.request_id}</a>
        </span>
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="Spans">
        <table class="spans">
          <thead>
            <tr>
              <th scope="col">Span</th>
              <th scope="col" class="right">
                From
              </th>
              <th scope="col" class="right">
                Took
              </th>
              <th scope="col">0 to {duration(total)}</th>
              <th scope="col">What</th>
            </tr>
          </thead>
          <tbody>
            {spans.slice(0, SPANS_MAX).map((span, at) => (
              <SpanRow key={at} span={span} total={total} />
            ))}
          </tbody>
        </table>
      </div>
      {left > 0 && <p class="quiet">{number(left)} further spans are not shown.</p>}
      <table class="charges">
        <caption>Every moment is charged to one phase</caption>
        <tbody>
          {PHASES.filter(([name]) => (charged.get(name) ?? 0) > 0).map(([name, meaning]) => (
            <tr key={name}>
              <th scope="row">
                <i class={`swatch ${tone(name)}`} />
                {name}
              </th>
              <td class="right">{duration(charged.get(name))}</td>
              <td class="right">{share((charged.get(name) ?? 0) / (total || 1))}</td>
              <td class="quiet wide">{meaning}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
