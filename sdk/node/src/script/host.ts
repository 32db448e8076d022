/** What the server gives a script: functions of the program around the engine. Calls are named by their numbers. */
import type { Html } from '../html.js';
import type { Statement } from '../sql/queries.js';
import type { StoreError } from '../store/error.js';
import type { NativeStore } from '../store/native.js';

/** Bytes or text that the server takes as they are. */
export type Chunk = string | Uint8Array;

/** A rule to run: its ticket, what gives its `process`, the node and its kind, what was before it as its state and JSON, the item of a loop as JSON. */
export type RunOrder = [ticket: number, load: () => unknown, node: string, kind: string, lastState: boolean, lastValues: string | null, item: string | null];

/** A rule to run, in a step of its own where it has a time of its own. Or a time to pass, in milliseconds; or a ticket to forget. */
export type RuleOrder =
  | RunOrder
  | [...RunOrder, isTimed: true]
  | [ticket: number, ms: number]
  | [ticket: number];

/** How a text has bytes. */
export type Encoding = 'utf8' | 'base64' | 'base58' | 'hex';

/** Without padding it is AES-128, whatever the length of the key. */
export type AesMode = 'cbc' | 'cbc-pkcs7' | 'ecb' | 'ecb-pkcs7';

export interface Host {
  // Requests.
  methodLength(call: number): number;
  part(call: number, index: number): string;
  pairs(call: number, index: number): string[];
  /** The values of a header, whose name is in lower case. */
  fieldValues(call: number, name: string): string[];
  /** The value of one, those of a repeated header joined by `, ` or, of `cookie`, `; `. */
  field(call: number, name: string): string | null;
  /** Whether method and path, in one piece, have something behind so many bytes, which is ASCII without `%`. */
  isPlain(call: number, at: number): boolean;
  bodyText(call: number): string;
  bodyBytes(call: number): ArrayBuffer;
  hasBody(call: number): boolean;
  /** Milliseconds until the deadline; less than 0 without one. */
  remaining(call: number): number;

  // Answers.
  /**
   * Answers with a string, with JSON of an array or an object literal, whose prototype is `plain`, or with HTML, whose prototype is `html`: 1, or 2
   * where the call still waits for something. 0: it is something else, or there is more to do about it; then nothing has happened.
   */
  plain(call: number, value: unknown, plain: object, html: object): 0 | 1 | 2;
  /** Says whether the call still waits for something. */
  answer(call: number, status: number, kind: number, isFault: boolean, headers: readonly string[] | null, body: Chunk | null): boolean;

  /**
   * Records of a kind, at paths that begin with `path` and end with a reference, are answered as `rest()` answers them: the server may do so
   * without a call.
   */
  declareRead(path: string, kind: string, isWabur: boolean): void;

  /** Begins an answer that comes in pieces. */
  beginStream(call: number, status: number, kind: number, headers: readonly string[] | null): void;
  /** Answers with the head of such an answer alone. */
  emptyStream(call: number, status: number, kind: number, headers: readonly string[] | null): void;
  /** The next piece: 0, nobody takes it; 1, the next may come; 2, the next may come when `wait` is over. */
  piece(call: number, wait: number, piece: Uint8Array): 0 | 1 | 2;
  /** The answer is complete. */
  endStream(call: number): void;
  /** It stays incomplete; says whether none of it was sent, so that the call can be answered in another way. */
  breakStream(call: number): boolean;

  // What calls wait for; `wait` is what `resume` is called with then. False: the call has ended, and nothing comes.
  isOpen(call: number): boolean;
  timer(call: number, wait: number, ms: number): boolean;
  /** A step of its own, as soon as may be. */
  turn(call: number, wait: number): boolean;
  /** From now on each promise has the number of the call that made it as a property; gives its name, or -1 where only one call is open. */
  markPromises(): number;
  isPending(promise: object): boolean;
  cancel(call: number, wait: number): void;
  /** `head`: method, URL, what is done about redirects, then names and values of headers by turns. */
  fetch(call: number, wait: number, head: readonly string[], body: Uint8Array | null): boolean;
  /** Statements on a database. `textOf` gives the text of a parameter that is no text, number, boolean or null. What comes is the result of each, or an object with the `error` of the first that failed. */
  sql(call: number, wait: number, database: string, statements: readonly Statement[], textOf: (value: unknown) => string | null): boolean;
  /** The databases that may be reached, by their names. */
  databases(): string[];
  /** Any operation on databases, as JSON. */
  desk(call: number, wait: number, operation: string): boolean;
  /** An operation of a client, as JSON: what rules ask of other systems. What comes is `{ value }` or `{ error: { code, message } }`. */
  client(call: number, wait: number, operation: string): boolean;
  /** The next piece of what answers the fetch that was waited for as `fetch`. */
  read(call: number, wait: number, fetch: number): boolean;
  /** No more of it is read. */
  closeFetch(call: number, fetch: number): void;

  // Texts.
  latin1Slice(bytes: Uint8Array, from: number, to: number): string;
  utf8Slice(bytes: Uint8Array, from: number, to: number): string;
  /** Writes as much as there is room for, in whole characters; gives the number of bytes. */
  utf8Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  latin1Write(bytes: Uint8Array, text: string, at: number, length: number): number;
  utf8(text: string): ArrayBuffer;

  /** Texts with values between them, escaped for HTML, but for the `text` of objects whose prototype is `marked`: another such object. */
  html(marked: Html, texts: TemplateStringsArray, ...values: readonly unknown[]): Html;

  // Rules. Each gives what is to be done next.
  begin(call: number): RuleOrder[];
  /** `values` is JSON. */
  ruleOver(call: number, ticket: number, state: boolean, values: string): RuleOrder[];
  ruleFailed(call: number, ticket: number, reason: string): RuleOrder[];
  timePassed(call: number, ticket: number): RuleOrder[];
  /** As `timer`, and not counted with those of the rules themselves. */
  ruleTimer(call: number, wait: number, ms: number): boolean;
  /** A module that a rule requires, or the module at the path `from`: its path, and what its file is. Throws where there is none. */
  ruleModule(call: number, from: string, name: string): [path: string, load: (exports: unknown, require: (name: unknown) => unknown, module: object) => void];
  /** A rule with a time of its own begins, in a step that has begun for it. */
  ruleTurn(ticket: number): void;
  ruleLog(call: number, level: number, line: string): void;

  isUtf8(bytes: Uint8Array): boolean;
  /** Names and values by turns, of `application/x-www-form-urlencoded`. */
  formDecode(form: string): string[];
  formEncode(pairs: readonly string[]): string;
  /** href, protocol, username, password, host, hostname, port, pathname, search, hash, origin; undefined: no URL. */
  url(url: string, base?: string): string[] | undefined;
  urlWith(href: string, part: string, value: string): string[] | undefined;

  // The rest of the web's interfaces.
  digest(name: string, bytes: Uint8Array): ArrayBuffer | undefined;
  random(length: number): ArrayBuffer;
  /** Loads a module of the SDK, by its path in the package, at once. */
  module(path: string): Record<string, unknown>;

  // Tools of rules. What one of them cannot take is an error that says what it takes.
  /** A text that has bytes in one encoding, with the same bytes in another. In `utf8` bytes that are none become U+FFFD. */
  recode(from: Encoding, to: Encoding, text: string): string;
  /** The digest of a text, in base64. */
  hash(name: 'md5' | 'sha1' | 'sha256' | 'sha384' | 'sha512', text: string): string;
  hmac(name: 'sha1' | 'sha256' | 'sha512', key: string, text: string): string;
  /** A whole number at random below another, which is from 1 to 2^53. */
  randomBelow(end: number): number;
  /** A text of so many characters, each drawn from these: 65,536 at most. */
  randomText(characters: string, count: number): string;
  /** So many random bytes in base64. */
  randomBase64(length: number): string;
  /** Keys, initial vectors and what is encrypted are in base64. */
  aesEncrypt(mode: AesMode, key: string, vector: string | null, text: string): string;
  aesDecrypt(mode: AesMode, key: string, vector: string | null, encrypted: string): string;
  /** A new pair of keys of so many bits, the public one first; both in base64. */
  rsaKeys(bits: number): [string, string];
  rsaEncrypt(publicKey: string, text: string): string;
  rsaDecrypt(privateKey: string, encrypted: string): string;
  /** At most `length` bytes, which may be `Infinity`, of a file. */
  fileRead(path: string, from: number, length: number): ArrayBuffer;
  fileLength(path: string): number;
  /** Writes a file and the folders above it. */
  fileWrite(path: string, content: Chunk, append: boolean): void;
  /** Of each file in a folder its path, its name, and `folder`, `file` or `other`, one after the other. */
  fileList(path: string): string[];
  /** A file, or a folder with all that is in it. */
  fileDelete(path: string): void;
  fileMakeFolders(path: string): void;

  // The store.
  readonly area: ArrayBuffer;
  /** Whether there is one, and a global of it may be reached. */
  hasStore(): boolean;
  openStore(errors: typeof StoreError): NativeStore;

  // The log. `call` is 0 outside of requests, `fields` is JSON or empty.
  log(call: number, level: number, message: string, fields: string): void;
}

const place = globalThis as unknown as { __forebay?: Host };

/** Only the SDK reaches it. */
export const host: Host = place.__forebay!;
delete place.__forebay;
