/**
 * Which worker gets the next message, by how busy each is, and which keys belong to one.
 */
import { availableParallelism } from 'node:os';
import { READY_PHASE, type Member } from './member.js';

/** A worker with less work than this, in milliseconds, gets more of it before another is woken; what takes less keeps no more workers busy than there are cores. */
const PACK_MS = 0.1;
/** With messages that take less, in milliseconds, this thread has as much to do as a worker: one core is its own. */
const SHARE_MS = 0.01;
/** Keys of affinity that are remembered. */
const AFFINITIES_MAX = 10_000;

export class Choice {
  readonly #members: readonly Member[];
  readonly #hasCredit: boolean;
  readonly #cores = availableParallelism();
  readonly #affinities = new Map<string, Member>();
  /** The one that got the last message. */
  #current: Member | null = null;

  constructor(members: readonly Member[], hasCredit: boolean) {
    this.#members = members;
    this.#hasCredit = hasCredit;
  }

  /**
   * The worker that gets the next message. Idle ones first, the one that was used last of them, so that the others may retire; but once as many are busy as there are cores,
   * a quick one with credit left takes it into its inbox: to wake one more would only make batches smaller.
   */
  pick(expectedMs: number): Member | null {
    const current = this.#current;
    if (current !== null && current.loadMs > 0 && current.loadMs < PACK_MS && this.isQuick(expectedMs) && current.hasRoom(expectedMs)) return current;
    let idle: Member | null = null;
    let busy: Member | null = null;
    let busyCount = 0;
    for (const member of this.#members) {
      if (member.phase !== READY_PHASE) continue;
      if (member.inFlight === 0) {
        if (idle === null || isBetter(member, idle)) idle = member;
        continue;
      }
      if (!member.isStalled) busyCount++;
      if ((busy === null || member.loadMs < busy.loadMs) && member.hasRoom(expectedMs)) busy = member;
    }
    if (busyCount < this.#coresFor(expectedMs)) return (this.#current = idle ?? busy);
    return (this.#current = busy ?? (this.isQuick(expectedMs) ? null : idle));
  }

  /** Whether other workers get through quick messages at least as well without this one. */
  isSurplus(member: Member, expectedMs: number): boolean {
    if (!this.isQuick(expectedMs) || member.inFlight > 0) return false;
    let busy = 0;
    for (const other of this.#members) if (other !== member && other.inFlight > 0 && other.phase === READY_PHASE && !other.isStalled) busy++;
    return busy >= this.#coresFor(expectedMs);
  }

  /** Whether so many of these fit into an inbox that they keep a worker busy; without credit none do. */
  isQuick(expectedMs: number): boolean {
    return expectedMs > 0 && expectedMs < PACK_MS && this.#hasCredit;
  }

  #coresFor(expectedMs: number): number {
    return expectedMs > 0 && expectedMs < SHARE_MS ? Math.max(1, this.#cores - 1) : this.#cores;
  }

  /** The worker that messages with this key go to. */
  boundTo(affinity: string): Member | undefined {
    return this.#affinities.get(affinity);
  }

  /** Messages with this key go to this worker from now on. */
  bind(affinity: string, member: Member): void {
    this.#affinities.delete(affinity);
    this.#affinities.set(affinity, member);
    if (this.#affinities.size <= AFFINITIES_MAX) return;
    const [oldest] = this.#affinities.keys();
    this.#affinities.delete(oldest!);
  }

  /** A worker gets no more. */
  forget(member: Member): void {
    if (this.#current === member) this.#current = null;
    for (const [key, bound] of this.#affinities) if (bound === member) this.#affinities.delete(key);
  }
}

/** Of two idle workers: one that stays rather than one that goes, then the one that was used last. */
function isBetter(member: Member, other: Member): boolean {
  if (member.isOutgoing !== other.isOutgoing) return other.isOutgoing;
  return member.lastAnswer > other.lastAnswer;
}
