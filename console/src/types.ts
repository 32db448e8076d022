/** What the server answers, as docs/reference/admin.md describes it. Times are milliseconds since 1970 where a name ends with `_ms` or `Ms`. */

export interface Session {
  version: string;
  /** Whether this client may change things. */
  edit: boolean;
  /** Whether tokens are configured, so that another one could be entered. */
  tokens: boolean;
  store: boolean;
  workflows: boolean;
  jobs: boolean;
}

/** Values at the moments of {@link History.at_ms}; null where there was nothing. */
export type Values = (number | null)[];

/** The last hour. */
export interface History {
  every_ms: number;
  at_ms: number[];
  /** Empty until there is a point. */
  server: { cpu?: Values; rss_bytes?: Values };
  routes: RouteHistory[];
  pools: { name: string; queued: Values; in_flight: Values; workers: Values }[];
}

export interface RouteHistory {
  route: string;
  requests: Values;
  failures: Values;
  p50_us: Values;
  p99_us: Values;
}

export interface Percentiles {
  count: number;
  p50_us: number;
  p90_us: number;
  p99_us: number;
  p99_9_us: number;
  max_us: number;
}

export interface Status {
  version: string;
  pid: number;
  state: string;
  uptime_s: number;
  listen: string[];
  generation: number;
  connections: { open: number; accepted: number };
  process: { rss_bytes: number; cpu_s: number; open_fds: number };
  log: { level: string; lines_lost: number };
  routes: RouteStatus[];
  pools: PoolStatus[];
  jobs: QueueStatus[];
  databases: { name: string; reachable: boolean; reason: string | null }[];
}

export interface RouteStatus {
  route: string;
  /** Counts by class of status. */
  requests: Record<string, number>;
  duration: Percentiles;
}

export interface PoolStatus {
  name: string;
  readiness: Readiness;
  workers_min: number;
  workers_max: number;
  queued: number;
  queue_max: number;
  connections: number;
  counters: Record<string, unknown> & { answered: number; faulted: number; workers_started: number; workers_ended: Record<string, number> };
  wait: Percentiles;
  run: Percentiles;
  workers: WorkerStatus[];
}

export interface WorkerStatus {
  id: number;
  pid: number;
  host: string | null;
  phase: string;
  in_flight: number;
  connections: number;
  answered: number;
  ready_s: number | null;
  rss_bytes: number | null;
}

export interface QueueStatus {
  queue: string;
  waiting: number;
  running: number;
  done: number;
  failed: number;
  oldest_ms: number;
}

export interface Readiness {
  state: string;
  reason?: string;
}

/** `/health/ready`. */
export interface Health {
  ready: boolean;
  stopping: boolean;
  pools: Record<string, Readiness>;
  databases: Record<string, Readiness>;
  store?: Readiness;
  cluster?: Readiness;
}

/** The timeline of a request; times in microseconds since it began. */
export interface Timeline {
  request_id: string;
  method: string;
  target: string;
  route: string;
  status: number;
  bytes: number;
  total_us: number;
  spans: Span[];
  spans_left_out: number;
}

export interface Span {
  kind: string;
  detail: string;
  from_us: number;
  took_us: number;
  parts?: { name: string; took_us: number }[];
}

export interface Samples {
  seen: number;
  left_out: number;
  samples: Timeline[];
}

export interface Job {
  id: string;
  route: string;
  state: string;
  attempts: number;
  acceptedMs: number;
  dueMs?: number | null;
  begunMs?: number | null;
  endedMs?: number | null;
  error?: string | null;
}

export interface Change {
  sequence: number;
  time_ms: number;
  operations: { op: string; path?: string[]; value?: unknown }[];
}

/** A member of an object from outside, if it is one. */
export function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined;
}

export const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');
export const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
export const numberOf = (value: unknown): number | undefined => (typeof value === 'number' ? value : undefined);
