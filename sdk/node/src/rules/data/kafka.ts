/** Kafka, with the names of Rengine. */
import { filledText, isNothing, text } from '../tools/arguments.js';
import { ask } from './clients.js';

/** The key and headers of a record. */
export interface RecordOptions {
  /** Records with the same key go to the same partition, in order. */
  readonly key?: string | null;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Where a record was written. */
export interface RecordPosition {
  readonly topic: string;
  readonly partition: number;
  readonly offset: number;
}

/** The Kafka cluster of `[kafka.NAME]`. */
export class KafkaFacade {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /**
   * Publishes a record or a list of records, and waits until they are acknowledged. A string is the value itself, null an absent value,
   * anything else is sent as JSON. If publishing a list fails, some of its records may have been written.
   */
  publish(topic: string, records: readonly unknown[], options?: RecordOptions): Promise<RecordPosition[]>;
  publish(topic: string, record: unknown, options?: RecordOptions): Promise<RecordPosition>;
  async publish(topic: string, records: unknown, options: RecordOptions = {}): Promise<RecordPosition | RecordPosition[]> {
    const key = isNothing(options.key) ? null : text(options.key, 'key');
    const headers = Object.entries(options.headers ?? {}).map(([name, value]) => [name, text(value, `headers.${name}`)]);
    const list: readonly unknown[] = Array.isArray(records) ? records : [records];
    const positions = await ask<RecordPosition[]>({
      op: 'kafka',
      source: this.#name,
      topic: filledText(topic, 'topic'),
      records: list.map((record) => ({ key, value: valueOf(record), headers })),
    });
    return Array.isArray(records) ? positions : positions[0]!;
  }
}

function valueOf(record: unknown): string | null {
  if (typeof record === 'string' || record === null) return record;
  const json = JSON.stringify(record) as string | undefined;
  if (json === undefined) throw new TypeError('a record is a text, null, or what JSON has');
  return json;
}
