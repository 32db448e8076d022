/** The second socket between a worker and the server, for blocking calls: the thread waits for the answer in a synchronous read. */
import { readSync, writeSync } from 'node:fs';
import { CALL_NUMBER_BYTES, END, HEADER_BYTES, RETURN, readU32, type Bytes } from '../wire.js';

/** Size of a read. */
const READ_BYTES = 65_536;

export class CallSocket {
  readonly #descriptor: number;
  readonly #generation: number;
  /** Bytes read but not processed yet, up to `#end`. */
  #bytes = Buffer.allocUnsafeSlow(READ_BYTES) as Bytes;
  #end = 0;

  constructor(descriptor: number, generation: number) {
    this.#descriptor = descriptor;
    this.#generation = generation;
  }

  /** Sends the frames of a call and returns its answer. */
  exchange(frames: Uint8Array, number: number): string {
    for (let at = 0; at < frames.length; ) at += writeSync(this.#descriptor, frames, at);
    const parts: Bytes[] = [];
    for (;;) {
      const { flags, answers, body } = this.#next();
      // The answer to an earlier call that was interrupted.
      if (answers !== number) continue;
      parts.push(body);
      if ((flags & END) !== 0) return (parts.length === 1 ? body : Buffer.concat(parts)).toString();
    }
  }

  /** The next RETURN frame. */
  #next(): { flags: number; answers: number; body: Bytes } {
    for (;;) {
      const length = this.#end < HEADER_BYTES ? 0 : readU32(this.#bytes, 0);
      const whole = HEADER_BYTES + length;
      if (this.#end < HEADER_BYTES || this.#end < whole) {
        this.#read(whole);
        continue;
      }
      const frame = Buffer.from(this.#bytes.subarray(0, whole)) as Bytes;
      this.#bytes.copyWithin(0, whole, this.#end);
      this.#end -= whole;
      const isOurs = frame[4] === RETURN && (frame[6]! | (frame[7]! << 8)) === this.#generation && length >= CALL_NUMBER_BYTES;
      if (isOurs) return { flags: frame[5]!, answers: readU32(frame, HEADER_BYTES), body: frame.subarray(HEADER_BYTES + CALL_NUMBER_BYTES) as Bytes };
    }
  }

  /** Reads until at least `wanted` bytes are available. */
  #read(wanted: number): void {
    if (this.#bytes.length < wanted) {
      const longer = Buffer.allocUnsafeSlow(wanted) as Bytes;
      this.#bytes.copy(longer, 0, 0, this.#end);
      this.#bytes = longer;
    }
    const count = readSync(this.#descriptor, this.#bytes, this.#end, this.#bytes.length - this.#end, null);
    if (count === 0) throw new Error('the server has closed this worker\'s call socket');
    this.#end += count;
  }
}
