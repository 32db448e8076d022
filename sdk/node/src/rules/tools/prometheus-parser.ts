import { TEXT_MAX, isNothing, text } from './arguments.js';

/** A sample: a name, labels and a value, which is the original text. */
export class PrometheusMetrics {
  #help = '';
  #type = '';
  #subType = '';
  #name = '';
  #value = '';
  #tags: Record<string, string> = {};

  getHelp(): string {
    return this.#help;
  }

  setHelp(help: string): void {
    this.#help = help;
  }

  /** `counter`, `gauge`, `histogram`, `summary` or `untyped`; empty if the text does not say. */
  getType(): string {
    return this.#type;
  }

  setType(type: string): void {
    this.#type = type;
  }

  /** The name of the metric family; for histograms and summaries it differs from the sample's name. */
  getSubType(): string {
    return this.#subType;
  }

  setSubType(subType: string): void {
    this.#subType = subType;
  }

  getName(): string {
    return this.#name;
  }

  setName(name: string): void {
    this.#name = name;
  }

  getValue(): string {
    return this.#value;
  }

  setValue(value: string): void {
    this.#value = value;
  }

  getTags(): Record<string, string> {
    return this.#tags;
  }

  setTags(tags: Record<string, string>): void {
    this.#tags = tags;
  }

  toString(): string {
    return `PrometheusMetrics ${JSON.stringify(this)}`;
  }

  toJSON(): Record<string, unknown> {
    return { help: this.#help, type: this.#type, subType: this.#subType, name: this.#name, value: this.#value, tags: this.#tags };
  }
}

/** Parses metrics in the Prometheus text format (version 0.0.4). */
export class PrometheusParser {
  /** The elements of the result of `parse`. */
  static readonly PrometheusMetrics = PrometheusMetrics;

  /**
   * The samples of a text of at most 10 Mi characters, in order. A sample has the help and the type that precede it for its family. A line
   * that is not a valid sample is an error with its line number; timestamps are ignored.
   */
  static parse(metricsString: string | null): PrometheusMetrics[] {
    if (isNothing(metricsString)) return [];
    const length = text(metricsString, 'metricsString').length;
    if (length > TEXT_MAX) throw new RangeError(`\`metricsString\` has at most ${TEXT_MAX} characters, and this one has ${length}`);
    const found: PrometheusMetrics[] = [];
    const families = new Map<string, { help: string; type: string }>();
    for (const [at, line] of metricsString.split('\n').entries()) {
      const written = line.trim();
      const [, kind, name, rest = ''] = /^#\s*(HELP|TYPE)\s+(\S+)\s*(.*)$/s.exec(written) ?? [];
      if (kind !== undefined && name !== undefined) {
        const family = families.get(name) ?? { help: '', type: '' };
        families.set(name, kind === 'HELP' ? { ...family, help: unescaped(rest) } : { ...family, type: rest });
      } else if (written !== '' && !written.startsWith('#')) {
        found.push(sampleOf(written, at + 1, families));
      }
    }
    return found;
  }
}

function sampleOf(line: string, number: number, families: ReadonlyMap<string, { help: string; type: string }>): PrometheusMetrics {
  const refusal = (what: string): RangeError => new RangeError(`line ${number} is no sample: ${what} in \`${line.slice(0, 200)}\``);
  const name = /^[^\s{]+/.exec(line)?.[0];
  if (name === undefined) throw refusal('there is no name');
  const tags: [string, string][] = [];
  let rest = line.slice(name.length).trimStart();
  if (rest.startsWith('{')) {
    // Each label with what follows it, then the closing brace.
    const label = /\s*([^\s=,{}"]+)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(?:,|(?=\}))|\s*\}/sy;
    label.lastIndex = 1;
    for (;;) {
      const match = label.exec(rest);
      if (match === null) throw refusal('the labels are not as `name="value"`, with commas between them and braces around them,');
      if (match[1] === undefined) break;
      tags.push([match[1], unescaped(match[2]!)]);
    }
    rest = rest.slice(label.lastIndex).trimStart();
  }
  const value = rest.split(/\s+/, 1)[0]!;
  if (!/^(?:[+-]?(?:[0-9.]+(?:e[+-]?[0-9]+)?|inf)|nan)$/i.test(value)) throw refusal('there is no number behind the name');
  const family = familyOf(name, families);
  const metrics = new PrometheusMetrics();
  metrics.setName(name);
  metrics.setValue(value);
  metrics.setTags(Object.fromEntries(tags));
  metrics.setHelp(families.get(family)?.help ?? '');
  metrics.setType(families.get(family)?.type ?? '');
  metrics.setSubType(families.has(family) ? family : '');
  return metrics;
}

/** The family of a sample: its name without the suffix that samples of histograms and summaries have. */
function familyOf(name: string, families: ReadonlyMap<string, unknown>): string {
  if (families.has(name)) return name;
  const base = name.replace(/_(?:bucket|count|sum|total|created)$/, '');
  return families.has(base) ? base : name;
}

function unescaped(written: string): string {
  return written.replace(/\\(.)/gs, (_, character: string) => (character === 'n' ? '\n' : character));
}
