import { host } from '../../script/host.js';
import { callable, filledText, isNothing, text, wholeNumber } from './arguments.js';

/** Longest line, in bytes, that may exceed the requested amount when reading from the middle of a file. */
const LINE_MAX = 65_536;
const READ_MAX = 10 * 1024 * 1024;

/** A file in a folder. */
export class FileInfo {
  readonly #path: string;
  readonly #name: string;
  readonly #kind: string;

  constructor(path: string, name: string, kind: string) {
    this.#path = path;
    this.#name = name;
    this.#kind = kind;
  }

  /** The path, as accepted by the methods of `Files`. */
  getPath(): string {
    return this.#path;
  }

  getName(): string {
    return this.#name;
  }

  isDir(): boolean {
    return this.#kind === 'folder';
  }

  isFile(): boolean {
    return this.#kind === 'file';
  }

  /** Whether the name begins with a dot. */
  isHidden(): boolean {
    return this.#name.startsWith('.');
  }

  toString(): string {
    return `FileInfo [path=${this.#path}, name=${this.#name}, isDir=${this.isDir()}, isFile=${this.isFile()}, isHidden=${this.isHidden()}]`;
  }

  toJSON(): Record<string, unknown> {
    return { path: this.#path, name: this.#name, dir: this.isDir(), file: this.isFile(), hidden: this.isHidden() };
  }
}

/** Lines read from the middle of a file. */
export class ReadTailFrame {
  /** Where reading began, where to continue, and the length of the file, in bytes. */
  readonly startPos: number;
  readonly endPos: number;
  readonly length: number;
  readonly lines: string[];
  /** False if reading ended at an empty line or at one that the stopper accepted. */
  readonly hasNext: boolean;

  constructor(startPos: number, endPos: number, length: number, lines: string[], hasNext: boolean) {
    this.startPos = startPos;
    this.endPos = endPos;
    this.length = length;
    this.lines = lines;
    this.hasNext = hasNext;
  }

  getStartPos(): number {
    return this.startPos;
  }

  getEndPos(): number {
    return this.endPos;
  }

  getLength(): number {
    return this.length;
  }

  getLines(): string[] {
    return this.lines;
  }
}

/**
 * Files in the folders that the rule may use (`allow.files`); none until the configuration names some. A path, with or without a leading
 * slash, is relative to the first of these folders unless it begins with one of them. Files have at most 10 MiB; texts are UTF-8.
 */
export class Files {
  /** The elements of the result of `listFiles`. */
  static readonly FileInfo = FileInfo;
  /** The result of `seekReadLines`. */
  static readonly ReadTailFrame = ReadTailFrame;

  /** The files of a folder, sorted by name, whose names the filter accepts; empty if the folder does not exist. */
  static listFiles(path: string, filter: (name: string) => boolean = () => true): FileInfo[] {
    callable(filter, 'filter');
    const listed = host.fileList(filledText(path, 'path'));
    const found: FileInfo[] = [];
    for (let at = 0; at + 2 < listed.length; at += 3) {
      const info = new FileInfo(listed[at]!, listed[at + 1]!, listed[at + 2]!);
      if (filter(info.getName())) found.push(info);
    }
    return found;
  }

  /** Deletes a file, or a folder with at most 10,000 files and all its content. */
  static forceDelete(path: string): void {
    host.fileDelete(filledText(path, 'path'));
  }

  /** Creates an empty file if it does not exist, and its parent folders. */
  static createFile(path: string): void {
    host.fileWrite(filledText(path, 'path'), '', true);
  }

  /** Creates a folder and its parents. */
  static mkdirs(path: string, childDir: string | null = null): void {
    const child = isNothing(childDir) ? '' : `/${text(childDir, 'childDir')}`;
    host.fileMakeFolders(filledText(path, 'path') + child);
  }

  static readToString(path: string): string {
    const bytes = Files.readToByteArray(path);
    return host.utf8Slice(bytes, 0, bytes.length);
  }

  static readToByteArray(path: string): Uint8Array {
    return new Uint8Array(host.fileRead(filledText(path, 'path'), 0, Infinity));
  }

  /** The lines of a file, without line endings. */
  static readLines(path: string): string[] {
    const lines = Files.readToString(path).split(/\r?\n/);
    if (lines.at(-1) === '') lines.pop();
    return lines;
  }

  /**
   * Reads lines from a position in a file until about `aboutLimit` bytes are read; the last line is read to its end. Stops earlier at an
   * empty line or at one that the stopper accepts, which is not included.
   */
  static seekReadLines(path: string, startPos: number, aboutLimit: number, stopper: (line: string) => boolean): ReadTailFrame {
    filledText(path, 'path');
    wholeNumber(startPos, 'startPos', 0, Number.MAX_SAFE_INTEGER);
    wholeNumber(aboutLimit, 'aboutLimit', 1, READ_MAX - LINE_MAX);
    callable(stopper, 'stopper');
    const length = host.fileLength(path);
    const bytes = new Uint8Array(host.fileRead(path, startPos, aboutLimit + LINE_MAX));
    const lines: string[] = [];
    let hasNext = true;
    let at = 0;
    while (at < bytes.length && at < aboutLimit) {
      const end = bytes.indexOf(0x0a, at);
      const line = host.utf8Slice(bytes, at, end < 0 ? bytes.length : end).replace(/\r$/, '');
      at = end < 0 ? bytes.length : end + 1;
      hasNext = !stopper(line) && line.trim() !== '';
      if (!hasNext) break;
      lines.push(line);
    }
    return new ReadTailFrame(startPos, startPos + at, length, lines, hasNext);
  }

  /** Writes a text, and creates the parent folders. With `append`, adds it to the end of the file. */
  static writeFromString(path: string, data: string | null, append: boolean = false): void {
    host.fileWrite(filledText(path, 'path'), isNothing(data) ? '' : text(data, 'data'), append === true);
  }

  static writeFromByteArray(path: string, data: Uint8Array | readonly number[] | null, append: boolean = false): void {
    const bytes = data instanceof Uint8Array ? data : bytesOf(data);
    host.fileWrite(filledText(path, 'path'), bytes, append === true);
  }
}

/** Bytes given as numbers, which may be negative as in Java. */
function bytesOf(data: readonly number[] | null): Uint8Array {
  if (isNothing(data)) return new Uint8Array(0);
  if (!Array.isArray(data)) throw new TypeError('`data` is a Uint8Array or an array of numbers from -128 to 255');
  return Uint8Array.from(data, (byte, at) => wholeNumber(byte, `data[${at}]`, -128, 255));
}
