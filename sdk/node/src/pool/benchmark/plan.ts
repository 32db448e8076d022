/** The plan of one run: the line of JSON that the driver reads first. */

/** The contenders, in the order in which they are listed to users. */
export const CONTENDERS = ['forebay', 'qoper8-cp', 'qoper8-wt', 'piscina', 'tinypool', 'workerpool', 'ipc', 'nothing'] as const;
export type ContenderName = (typeof CONTENDERS)[number];

/** Processes or threads, for contenders that have both. */
export type Kind = 'process' | 'thread';

/** Member names state the units. */
export interface Plan {
  readonly contender: ContenderName;
  readonly kind: Kind;
  readonly workers: number;
  /** Messages in the measured phase. */
  readonly messages: number;
  /** Messages in the warm-up, which is not measured. */
  readonly warmup: number;
  /** Messages per block, if blocks are sent. */
  readonly block: number;
  /** Maximum number of messages without a reply, refilled as replies arrive; null sends blocks. */
  readonly outstanding: number | null;
  /** The delay between two blocks. */
  readonly delay_ms: number;
  /** Whether the delay adapts to the queue as QOper8's does. */
  readonly adaptive: boolean;
  /** Bytes of text in each message. */
  readonly payload: number;
  /** A module whose default export handles messages in place of the default handler, or null. */
  readonly handler: string | null;
  /** The folder whose `node_modules` contains the peers, or null if there are none. */
  readonly packages: string | null;
  /** Messages that a worker has at a time; null for the best setting of the contender. */
  readonly concurrency: number | null;
  /** The run fails if no reply arrives for this long. */
  readonly deadline_ms: number;
}

/** A run keeps a start time for each message without a reply; blocks pause at this number. */
export const OUTSTANDING_MAX = 1_000_000;

/** Maximum number of workers; more than the largest machine a single program's pool is meant for. */
export const WORKERS_MAX = 1024;

/** Longest text of a message; no contender takes larger frames. */
export const PAYLOAD_MAX = 16 * 1024 * 1024;

/** Longest delay between two blocks, a minute. */
export const DELAY_MS_MAX = 60_000;

const MESSAGES_MAX = 1_000_000_000;
const DEADLINE_MS_MAX = 3_600_000;

/** Parses a plan. @throws Error that names the member, the value found, and what is accepted. */
export function readPlan(text: string): Plan {
  const found: unknown = JSON.parse(text);
  if (typeof found !== 'object' || found === null) throw new Error('a plan is an object of JSON');
  const members = new Map(Object.entries(found));

  function checkInteger(name: string, min: number, max: number): number {
    const value = members.get(name);
    if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
    throw new Error(`${name} is ${JSON.stringify(value)}: a whole number from ${min} to ${max} is accepted`);
  }
  function checkIntegerOrNull(name: string, min: number, max: number): number | null {
    return (members.get(name) ?? null) === null ? null : checkInteger(name, min, max);
  }
  function oneOf<Word extends string>(name: string, words: readonly Word[]): Word {
    const value = members.get(name);
    const word = words.find((each) => each === value);
    if (word === undefined) throw new Error(`${name} is ${JSON.stringify(value)}: accepted are ${words.join(', ')}`);
    return word;
  }
  function path(name: string): string | null {
    const value = members.get(name) ?? null;
    if (value === null || (typeof value === 'string' && value !== '')) return value;
    throw new Error(`${name} is ${JSON.stringify(value)}: a path is accepted`);
  }

  return {
    contender: oneOf('contender', CONTENDERS),
    kind: oneOf('kind', ['process', 'thread']),
    workers: checkInteger('workers', 1, WORKERS_MAX),
    messages: checkInteger('messages', 1, MESSAGES_MAX),
    warmup: checkInteger('warmup', 0, MESSAGES_MAX),
    block: checkInteger('block', 1, OUTSTANDING_MAX),
    outstanding: checkIntegerOrNull('outstanding', 1, OUTSTANDING_MAX),
    delay_ms: checkInteger('delay_ms', 0, DELAY_MS_MAX),
    adaptive: members.get('adaptive') === true,
    payload: checkInteger('payload', 0, PAYLOAD_MAX),
    handler: path('handler'),
    packages: path('packages'),
    concurrency: checkIntegerOrNull('concurrency', 1, 65_535),
    deadline_ms: checkInteger('deadline_ms', 1, DEADLINE_MS_MAX),
  };
}
