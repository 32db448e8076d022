/** Parameters in PostgreSQL's text format. */

/** The text of a parameter; `null` stands for SQL null. */
export type Text = string | null;

/** The text of a value: arrays become PostgreSQL arrays, any other object JSON. */
export function textOf(value: unknown): Text {
  switch (typeof value) {
    case 'string':
      return value;
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(value);
    case 'undefined':
      return null;
    case 'object':
      if (value === null) return null;
      if (Array.isArray(value)) return arrayOf(value);
      if (value instanceof Date) return value.toISOString();
      if (value instanceof Uint8Array) return hexOf(value);
      return JSON.stringify(value);
    default:
      throw new TypeError(`a parameter is text, a number, a boolean, null, a Date, bytes, an array or JSON, not a ${typeof value}`);
  }
}

/** For example `{1,NULL,"a \\"b\\"",{...}}` (PostgreSQL manual, 8.15.6). */
function arrayOf(values: readonly unknown[]): string {
  return `{${values.map((value) => (Array.isArray(value) ? arrayOf(value) : elementOf(textOf(value)))).join(',')}}`;
}

function elementOf(text: Text): string {
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** For example `\\x00ff` (PostgreSQL manual, 8.4.1). */
export function hexOf(bytes: Uint8Array): string {
  let text = '\\x';
  for (const byte of bytes) text += HEX[byte];
  return text;
}

/** Decodes the format of `hexOf`. */
export function bytesOf(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2 - 1);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = (digitOf(hex.charCodeAt(2 * index + 2)) << 4) | digitOf(hex.charCodeAt(2 * index + 3));
  }
  return bytes;
}

/** The value of a hexadecimal digit; `0` to `9` are 0x30 to 0x39, `a` to `f` 0x61 to 0x66. */
function digitOf(code: number): number {
  return code < 0x40 ? code - 0x30 : code - 0x57;
}
