/** What the server gives a script: functions of the program around the engine. Calls are named by their numbers. */
import type { StoreError } from '../store/error.js';
import type { NativeStore } from '../store/native.js';

/** Bytes or text that the server takes as they are. */
export type Chunk = string | Uint8Array;

export interface Host {
  // Requests.
  methodLength(call: number): number;
  part(call: number, index: number): string;
  pairs(call: number, index: number): string[];
  bodyText(call: number): string;
  bodyBytes(call: number): ArrayBuffer;
  hasBody(call: number): boolean;
  /** Milliseconds until the deadline; less than 0 without one. */
  remaining(call: number): number;

  // Answers.
  /** The same as `answer`, for JSON with status 200 and no headers. */
  json(call: number, body: string): void;
  answer(call: number, status: number, kind: number, isFault: boolean, headers: readonly string[] | null, body: Chunk | null): void;

  // Texts.
  latin1Slice(bytes: Uint8Array, from: number, to: number): string;
  utf8Slice(bytes: Uint8Array, from: number, to: number): string;
  /** Writes as much as there is room for, in whole characters; gives the number of bytes. */
  utf8Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  latin1Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  utf8(text: string): ArrayBuffer;

  // The store.
  readonly area: ArrayBuffer;
  openStore(errors: typeof StoreError): NativeStore;

  // The log. `call` is 0 outside of requests, `fields` is JSON or empty.
  log(call: number, level: number, message: string, fields: string): void;
}

const place = globalThis as unknown as { __forebay?: Host };

/** Only the SDK reaches it. */
export const host: Host = place.__forebay!;
delete place.__forebay;
