import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { draw, graphOf } from '../../../editors/graph/graph.mjs';
import { Empty } from '../ui';

interface GraphProps {
  name: string;
  source: unknown;
  /** States of nodes by their ids. */
  marks: Record<string, { severity: string; message: string }>;
  chosen: string;
  onChoose: (id: string) => void;
}

/** The graph of a workflow. Its nodes are buttons. */
export function Graph({ name, source, marks, chosen, onChoose }: GraphProps): JSX.Element {
  const area = useRef<HTMLDivElement>(null);
  const graph = graphOf(source);
  const svg = graph ? draw(graph, marks) : '';
  const choose = (target: EventTarget | null): void => {
    const id = target instanceof Element ? target.closest<SVGElement>('[data-id]')?.dataset['id'] : undefined;
    if (id !== undefined) onChoose(id);
  };
  useLayoutEffect(() => {
    for (const node of area.current?.querySelectorAll<SVGElement>('[data-id]') ?? []) {
      node.classList.toggle('chosen', node.dataset['id'] === chosen);
      // Its name begins with what is seen, for those who say it aloud.
      const seen = [...node.querySelectorAll('text')].map(({ textContent }) => textContent).join(' ');
      const title = node.querySelector('title');
      const message = marks[node.dataset['id'] ?? '']?.message;
      if (title && message) title.textContent = message;
      node.setAttribute('aria-label', `${seen}, ${title?.textContent ?? ''}`);
    }
  }, [svg, chosen]);
  if (graph === undefined) return <Empty title="This is no graph">It has no nodes and edges.</Empty>;
  return (
    <div
      ref={area}
      class="graph"
      role="group"
      aria-label={`Graph of ${name}`}
      tabIndex={0}
      onClick={({ target }) => choose(target)}
      onKeyDown={(event) => (event.key === 'Enter' || event.key === ' ') && (event.preventDefault(), choose(event.target))}
      dangerouslySetInnerHTML={{ __html: svg }}
    />
  );
}
