/** Differences of two texts by lines. */
import type { JSX } from 'preact';
import { number } from './format';

export type Line = { kind: 'same' | 'added' | 'removed'; text: string };

/** Most lines that are compared with each other; beyond, all that differs counts as replaced. */
const COMPARED_MAX = 3_000_000;
/** Unchanged lines shown around changes, and lines shown in all. */
const CONTEXT = 3;
const SHOWN_MAX = 2_000;

/** The longest common subsequence between what both begin and end with. */
export function lineDiff(before: string, after: string): Line[] {
  const [old, now] = [before.split('\n'), after.split('\n')];
  let head = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < old.length - head && tail < now.length - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  const [a, b] = [old.slice(head, old.length - tail), now.slice(head, now.length - tail)];
  const lines = (kind: Line['kind'], texts: string[]): Line[] => texts.map((text) => ({ kind, text }));
  return [...lines('same', old.slice(0, head)), ...middle(a, b, lines), ...lines('same', old.slice(old.length - tail))];
}

function middle(a: string[], b: string[], lines: (kind: Line['kind'], texts: string[]) => Line[]): Line[] {
  if (a.length * b.length > COMPARED_MAX) return [...lines('removed', a), ...lines('added', b)];
  const width = b.length + 1;
  const common = new Uint32Array((a.length + 1) * width);
  const at = (i: number, j: number): number => common[i * width + j] ?? 0;
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) common[i * width + j] = a[i] === b[j] ? at(i + 1, j + 1) + 1 : Math.max(at(i + 1, j), at(i, j + 1));
  }
  const out: Line[] = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ kind: 'same', text: a[i] ?? '' });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && at(i + 1, j) >= at(i, j + 1))) {
      out.push({ kind: 'removed', text: a[i] ?? '' });
      i += 1;
    } else {
      out.push({ kind: 'added', text: b[j] ?? '' });
      j += 1;
    }
  }
  return out;
}

export function Diff({ before, after }: { before: string; after: string }): JSX.Element {
  const lines = lineDiff(before, after);
  const near = lines.map((_, at) => lines.slice(Math.max(0, at - CONTEXT), at + CONTEXT + 1).some(({ kind }) => kind !== 'same'));
  const shown = lines.flatMap((line, at) => (near[at] ? [{ ...line, gap: at > 0 && !near[at - 1] }] : []));
  const mark = { same: ' ', added: '+', removed: '−' };
  return (
    <div class="diff" tabIndex={0} role="region" aria-label="Differences">
      {shown.slice(0, SHOWN_MAX).map(({ kind, text, gap }, at) => (
        <div key={at} class={`${kind} ${gap ? 'gap' : ''}`}>
          {mark[kind]} {text}
        </div>
      ))}
      {shown.length > SHOWN_MAX && <p class="quiet">{number(shown.length - SHOWN_MAX)} more lines are not shown.</p>}
      {shown.length === 0 && <p class="quiet">There is no difference.</p>}
    </div>
  );
}
