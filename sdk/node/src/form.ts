import { Buffer } from 'node:buffer';
import { HttpError } from './reply.js';
import type { Bytes } from './wire.js';

/** A file of a `multipart/form-data` body. */
export interface UploadedFile {
  /** The name of the form field. */
  readonly field: string;
  /** The name the client gave the file: never use it as a path. */
  readonly name: string;
  /** The content type the client claims. */
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** The body of a form: `form.fields.get('email')`, `form.files[0].bytes`. */
export interface UploadedForm {
  /** The fields in order; repeated names are kept (`getAll`). */
  readonly fields: URLSearchParams;
  /** The files in order; empty for an urlencoded form. */
  readonly files: readonly UploadedFile[];
}

/** Parses a form body according to its content type. */
export function readForm(contentType: string, body: Uint8Array): UploadedForm {
  const type = contentType.split(';', 1)[0]!.trim().toLowerCase();
  const bytes = Buffer.from(body.buffer, body.byteOffset, body.length) as Bytes;
  if (type === 'application/x-www-form-urlencoded') {
    return { fields: new URLSearchParams(bytes.utf8Slice(0, bytes.length)), files: [] };
  }
  if (type === 'multipart/form-data') return readMultipart(contentType, bytes);
  throw new HttpError(
    415,
    `the body is ${type === '' ? 'of no content type' : type}, a form is application/x-www-form-urlencoded or multipart/form-data`,
  );
}

const LINE = Buffer.from('\r\n');
const BLANK = Buffer.from('\r\n\r\n');

/** Parses `multipart/form-data` (RFC 7578; RFC 2046, section 5.1). */
function readMultipart(contentType: string, body: Bytes): UploadedForm {
  const boundary = parameter(contentType, 'boundary');
  if (boundary === undefined || boundary === '') throw new HttpError(400, 'the multipart content type names no boundary');
  const form = { fields: new URLSearchParams(), files: [] as UploadedFile[] };
  const mark = Buffer.from(`\r\n--${boundary}`);
  // Without a preamble, no line end comes before the first boundary.
  let at = body.indexOf(mark.subarray(2)) === 0 ? mark.length - 2 : after(body.indexOf(mark), mark.length);
  while (!body.subarray(at, at + 2).equals(Buffer.from('--'))) {
    const head = after(body.indexOf(LINE, at), 0);
    const blank = after(body.indexOf(BLANK, head), 0);
    const start = blank + BLANK.length;
    const end = after(body.indexOf(mark, blank + 2), 0);
    addPart(form, body.utf8Slice(Math.min(head + 2, blank), blank), body.subarray(Math.min(start, end), end) as Bytes);
    at = end + mark.length;
  }
  return form;
}

/** Advances a position returned by `indexOf`; -1 (not found) means that the body is malformed. */
function after(position: number, by: number): number {
  if (position < 0) throw new HttpError(400, 'the multipart body is malformed or ends too early');
  return position + by;
}

function addPart(form: { fields: URLSearchParams; files: UploadedFile[] }, head: string, body: Bytes): void {
  const headers = new Map<string, string>();
  for (const line of head.split('\r\n')) {
    const colon = line.indexOf(':');
    if (colon > 0) headers.set(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
  }
  const disposition = headers.get('content-disposition') ?? '';
  const field = parameter(disposition, 'name');
  if (field === undefined) throw new HttpError(400, 'a part of the multipart body has no name');
  const name = parameter(disposition, 'filename');
  if (name === undefined) form.fields.append(field, body.utf8Slice(0, body.length));
  else form.files.push({ field, name, type: headers.get('content-type') ?? 'application/octet-stream', bytes: body });
}

/** The value of `; name=value` or `; name="value"` in a header; browsers escape a quote in it as `%22`. */
function parameter(header: string, name: string): string | undefined {
  const pattern = /;\s*([^=\s;]+)\s*=\s*(?:"([^"]*)"|([^;]*))/g;
  for (const [, key, quoted, bare] of header.matchAll(pattern)) {
    if (key!.toLowerCase() === name) return quoted?.replaceAll('%22', '"') ?? bare!.trim();
  }
  return undefined;
}
