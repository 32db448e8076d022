/** Values over time. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clock } from './format';
import { scheme } from './scheme';
import { useCell } from './cell';
import type { Values } from './types';

const HEIGHT = 132;
const MINUTE_MS = 60_000;
/** Distances of lines that are round in bytes. */
const BINARY = Array.from({ length: 41 }, (_, power) => 2 ** power);

export interface Series {
  name: string;
  values: Values;
  /** The custom property with its colour. */
  colour: string;
}

interface PlotProps {
  title: string;
  /** Milliseconds since 1970. */
  at: number[];
  series: Series[];
  write: (value: number | null | undefined) => string;
  /** Whether values are bytes. */
  binary?: boolean;
}

/** Colours as the canvas takes them: custom properties that depend on the scheme are resolved by an element. */
function colours(element: HTMLElement, names: string[]): string[] {
  return names.map((name) => {
    const probe = element.appendChild(document.createElement('span'));
    probe.style.color = `var(${name})`;
    const { color } = getComputedStyle(probe);
    probe.remove();
    return color;
  });
}

/** Lines with a common cursor: what it points at in one plot is pointed at in all. */
export function Plot({ title, at, series, write, binary = false }: PlotProps): JSX.Element {
  const area = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const writer = useRef(write);
  writer.current = write;
  const [index, setIndex] = useState<number | null>(null);
  const dark = useCell(scheme);
  const names = series.map(({ name, colour }) => `${name} ${colour}`).join();
  const data: uPlot.AlignedData = [at, ...series.map(({ values }) => values)];

  useEffect(() => {
    const element = area.current;
    if (!element) return undefined;
    const [quiet, line, ...lines] = colours(element, ['--quiet', '--line', ...series.map(({ colour }) => colour)]);
    const axis = { stroke: quiet ?? '', grid: { stroke: line ?? '', width: 1 }, ticks: { show: false }, font: '11px system-ui, sans-serif', gap: 4 };
    const drawn = new uPlot(
      {
        ms: 1,
        width: element.clientWidth,
        height: HEIGHT,
        padding: [8, 18, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: 'time' }, y: false, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: { range: (_, __, most) => [0, most > 0 ? most * 1.1 : 1] } },
        axes: [
          { ...axis, grid: { show: false }, size: 22, space: 70, values: (_, splits, __, ___, step) => splits.map((ms) => clock(ms).slice(-8, step < MINUTE_MS ? undefined : -3)) },
          { ...axis, size: 72, space: 34, ...(binary && { incrs: BINARY }), values: (_, splits) => splits.map((value) => writer.current(value)) },
        ],
        series: [{}, ...series.map(({ name }, place) => ({ label: name, stroke: lines[place] ?? '', width: 1.5, points: { show: false }, ...(place === 0 && { fill: (lines[0] ?? '').replace('rgb(', 'rgba(').replace(')', ', 0.08)') }) }))],
        hooks: { setCursor: [({ cursor }) => setIndex(cursor.idx ?? null)] },
      },
      data,
      element,
    );
    plot.current = drawn;
    const resized = new ResizeObserver(() => drawn.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      drawn.destroy();
    };
  }, [names, dark]);
  useEffect(() => plot.current?.setData(data), [at, names, dark]);

  const shown = index ?? at.length - 1;
  const values = series.map(({ name, values }) => `${name} ${write(values[shown])}`).join(', ');
  return (
    <figure class="plot">
      <figcaption>
        <span class="title">{title}</span>
        <span class="values">
          {series.map(({ name, values, colour }) => (
            <span key={name} class="series">
              <i style={{ background: `var(${colour})` }} />
              {name} <b>{write(values[shown])}</b>
            </span>
          ))}
          <span class="quiet at">{index === null ? 'now' : clock(at[index])}</span>
        </span>
      </figcaption>
      <div ref={area} class="area" role="img" aria-label={`${title} in the last hour; ${values}`} />
    </figure>
  );
}

/** A line in a table's cell, from nothing to its largest value. */
export function Sparkline({ values, colour = '--accent' }: { values: Values; colour?: string }): JSX.Element {
  const most = Math.max(...values.map((value) => value ?? 0), 0) || 1;
  const step = 96 / Math.max(1, values.length - 1);
  const points = values.flatMap((value, at) => (value === null ? [] : `${(at * step).toFixed(1)},${(19 - (value / most) * 17).toFixed(1)}`));
  return (
    <svg class="sparkline" viewBox="0 0 96 20" width="96" height="20" aria-hidden="true">
      <polyline points={points.join(' ')} fill="none" stroke={`var(${colour})`} stroke-width="1.25" stroke-linejoin="round" />
    </svg>
  );
}
