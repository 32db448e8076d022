/** The functions that the server provides to a script. Calls are identified by numbers. */
import type { Html } from '../html.js';
import type { RunInput } from '../rules/context.js';
import type { Statement } from '../sql/queries.js';
import type { StoreError } from '../store/error.js';
import type { NativeStore } from '../store/native.js';

/** A body that the server takes without conversion. */
export type Chunk = string | Uint8Array;

/**
 * A rule to run: its ticket, a function that loads its `process`, the node and its kind, state and JSON values of the previous result, the
 * item of a loop as JSON.
 */
export type RunOrder = [ticket: number, load: () => unknown, node: string, kind: string, lastState: boolean, lastValues: string | null, item: string | null];

/**
 * A rule to run, in its own step if it has its own time limit; or an evaluation that is over, with its response in JSON or the reason of its
 * failure; or a delay in milliseconds; or a ticket to forget.
 */
export type RuleOrder =
  | RunOrder
  | [...RunOrder, isTimed: true]
  | [evaluation: number, isDone: boolean, text: string]
  | [ticket: number, ms: number]
  | [ticket: number];

/** How a text encodes bytes. */
export type Encoding = 'utf8' | 'base64' | 'base58' | 'hex';

/** The modes without padding are AES-128, whatever the length of the key. */
export type AesMode = 'cbc' | 'cbc-pkcs7' | 'ecb' | 'ecb-pkcs7';

export interface Host {
  // Reading requests.
  methodLength(call: number): number;
  part(call: number, index: number): string;
  pairs(call: number, index: number): string[];
  /** All values of a header, whose name is in lower case. */
  fieldValues(call: number, name: string): string[];
  /** The value of a header; values of a repeated header are joined by `, `, those of `cookie` by `; `. */
  field(call: number, name: string): string | null;
  /** Whether the text after the first `at` bytes of method and path, concatenated, is non-empty ASCII without `%`. */
  isPlain(call: number, at: number): boolean;
  bodyText(call: number): string;
  bodyBytes(call: number): ArrayBuffer;
  hasBody(call: number): boolean;
  /** Milliseconds until the deadline; negative without one. */
  remaining(call: number): number;

  // Sending responses.
  /**
   * Answers with a string; with JSON, if the value is an array or an object whose prototype is `plain`; with HTML, if its prototype is
   * `html`; or with a reply with a text, if its prototype is `reply`. Returns 1, or 2 if the call still waits for something. Returns 0 and does nothing if the value is anything else or needs more
   * work.
   */
  plain(call: number, value: unknown, plain: object, html: object, reply: object): 0 | 1 | 2;
  /** Answers a call; returns whether it still waits for something. */
  answer(call: number, status: number, kind: number, isFault: boolean, headers: readonly string[] | null, body: Chunk | null): boolean;

  /**
   * Declares that `rest()` serves records of a kind at paths that consist of `path` and a reference, so that the server may answer them
   * without a call.
   */
  declareRead(path: string, kind: string, isWabur: boolean): void;

  /** Begins a streamed response. */
  beginStream(call: number, status: number, kind: number, headers: readonly string[] | null): void;
  /** Answers with the head of a streamed response only. */
  emptyStream(call: number, status: number, kind: number, headers: readonly string[] | null): void;
  /** Sends the next piece: 0, the client is gone; 1, the next may follow; 2, the next may follow when `wait` is over. */
  piece(call: number, wait: number, piece: Uint8Array): 0 | 1 | 2;
  /** Ends a streamed response. */
  endStream(call: number): void;
  /** Aborts a streamed response; returns whether none of it was sent yet, so that the call can still be answered otherwise. */
  breakStream(call: number): boolean;

  // Waits. `resume` is called with the number `wait` when one is over. They return false if the call has ended, and `resume` is not called
  // then.
  isOpen(call: number): boolean;
  timer(call: number, wait: number, ms: number): boolean;
  /** Resumes in a new step as soon as possible. */
  turn(call: number, wait: number): boolean;
  /**
   * From now on, each promise has a property with the number of the call that made it. Returns the property's name, or -1 if an engine has
   * one call at a time.
   */
  markPromises(): number;
  isPending(promise: object): boolean;
  cancel(call: number, wait: number): void;
  /** `head` is: method, URL, redirect mode, then alternating names and values of headers. */
  fetch(call: number, wait: number, head: readonly string[], body: Uint8Array | null): boolean;
  /**
   * Runs statements on a database. `textOf` converts parameters that are not text, number, boolean or null. Resumes with the results, or
   * with an object with the `error` of the first statement that failed.
   */
  sql(call: number, wait: number, database: string, statements: readonly Statement[], textOf: (value: unknown) => string | null): boolean;
  /** The names of the databases that may be accessed. */
  databases(): string[];
  /** Any database operation, as JSON. */
  sqlOperation(call: number, wait: number, operation: string): boolean;
  /** An operation of a rule on another system, as JSON. Resumes with `{ value }` or `{ error: { code, message } }`. */
  client(call: number, wait: number, operation: string): boolean;
  /** Reads the next piece of the response to the fetch whose wait had the number `fetch`. */
  read(call: number, wait: number, fetch: number): boolean;
  /** Stops reading a response. */
  closeFetch(call: number, fetch: number): void;

  // Text encoding.
  latin1Slice(bytes: Uint8Array, from: number, to: number): string;
  utf8Slice(bytes: Uint8Array, from: number, to: number): string;
  /** Writes as many whole characters as fit; returns the number of bytes written. */
  utf8Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  latin1Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  utf8(text: string): ArrayBuffer;

  /** Fills a template with values, escaped for HTML except the `text` of objects whose prototype is `marked`; returns such an object. */
  html(marked: Html, texts: TemplateStringsArray, ...values: readonly unknown[]): Html;

  // Rules. These return the next orders.
  begin(call: number): RuleOrder[];
  /** The description of a run that its rules see. */
  runInput(call: number): RunInput;
  /** Reports the result of a rule; `values` is JSON. */
  ruleOver(call: number, ticket: number, state: boolean, values: string): RuleOrder[];
  ruleFailed(call: number, ticket: number, reason: string): RuleOrder[];
  timePassed(call: number, ticket: number): RuleOrder[];
  /** Begins to evaluate the decision `key` for JSON `input`. Throws if there are too many evaluations at once. */
  evaluateDecision(call: number, evaluation: number, key: string, input: string, wantsTrace: boolean): RuleOrder[];
  /** Evaluates an expression, or a unary test, for a JSON context; returns JSON. Throws if it has no value. */
  evaluateExpression(call: number, expression: string, context: string, isUnary: boolean): string;
  /** Like `timer`, but not counted with the timers of the rules themselves. */
  ruleTimer(call: number, wait: number, ms: number): boolean;
  /**
   * The module `name`, as required by a rule or by the module at the path `from`: its path, and a function that runs it; or only the name, if
   * the module is one of the SDK's own. Throws if there is none.
   */
  ruleModule(
    call: number,
    from: string,
    name: string,
  ): [path: string, load: (exports: unknown, require: (name: unknown) => unknown, module: object) => void] | [name: 'http' | 'zen'];
  /** The time that rules find instead of the current one, in milliseconds since 1970; null or undefined if there is none. */
  fixedTime(): number | null | undefined;
  /** Whether the clients of rules block the rule. */
  blocksRules(): boolean;
  /** Blocks the running rule until the promise is settled: returns its value or throws its reason. */
  settle(call: number, promise: PromiseLike<unknown>): unknown;
  /** Marks the start of a rule with its own time limit, in the step made for it. */
  ruleTurn(ticket: number): void;
  ruleLog(call: number, rule: number, level: number, line: string): void;

  isUtf8(bytes: Uint8Array): boolean;
  /** Alternating names and values of `application/x-www-form-urlencoded`. */
  formDecode(form: string): string[];
  formEncode(pairs: readonly string[]): string;
  /** href, protocol, username, password, host, hostname, port, pathname, search, hash, origin; undefined if the URL is invalid. */
  url(url: string, base?: string): string[] | undefined;
  urlWith(href: string, part: string, value: string): string[] | undefined;

  // Other web APIs.
  digest(name: string, bytes: Uint8Array): ArrayBuffer | undefined;
  random(length: number): ArrayBuffer;
  /** Loads a module of the SDK synchronously, by its path in the package. */
  module(path: string): Record<string, unknown>;

  // Tools of rules. An invalid argument is an error that says what is accepted.
  /** Decodes a text to bytes and encodes these again. As `utf8`, invalid bytes become U+FFFD. */
  recode(from: Encoding, to: Encoding, text: string): string;
  /** The digest of a text in base64. */
  hash(name: 'md5' | 'sha1' | 'sha256' | 'sha384' | 'sha512', text: string): string;
  hmac(name: 'sha1' | 'sha256' | 'sha512', key: string, text: string): string;
  /** A random integer from 0 to `end`, exclusive; `end` is from 1 to 2^53. */
  randomBelow(end: number): number;
  /** A text of `count` random characters out of `characters`; at most 65,536. */
  randomText(characters: string, count: number): string;
  /** `length` random bytes in base64. */
  randomBase64(length: number): string;
  /** Keys, initialization vectors and ciphertexts are base64. */
  aesEncrypt(mode: AesMode, key: string, vector: string | null, text: string): string;
  aesDecrypt(mode: AesMode, key: string, vector: string | null, encrypted: string): string;
  /** A new key pair of so many bits: the public key, then the private one, in base64. */
  rsaKeys(bits: number): [string, string];
  rsaEncrypt(publicKey: string, text: string): string;
  rsaDecrypt(privateKey: string, encrypted: string): string;
  /** Reads at most `length` bytes of a file; `length` may be `Infinity`. */
  fileRead(path: string, from: number, length: number): ArrayBuffer;
  fileLength(path: string): number;
  /** Writes a file and creates its parent folders. */
  fileWrite(path: string, content: Chunk, append: boolean): void;
  /** For each file in a folder its path, its name, and `folder`, `file` or `other`, in one flat list. */
  fileList(path: string): string[];
  /** Deletes a file, or a folder with all its content. */
  fileDelete(path: string): void;
  fileMakeFolders(path: string): void;

  // The embedded store.
  readonly area: ArrayBuffer;
  /** Whether there is a store, and at least one global may be accessed. */
  hasStore(): boolean;
  openStore(errors: typeof StoreError): NativeStore;

  // Logging. `call` is 0 outside of requests; `fields` is JSON or empty.
  log(call: number, level: number, message: string, fields: string): void;
}

const place = globalThis as unknown as { __forebay?: Host };

/** Accessible to the SDK only: the global is deleted at once. */
export const host: Host = place.__forebay!;
delete place.__forebay;
