/** Parameters as the database reads them. */

/** A parameter's text; `null` is null. */
export type Text = string | null;

/** The text of a value: an array is one of the database's, any other object is JSON. */
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

/** `{1,NULL,"a \\"b\\"",{...}}` (manual, 8.15.6). */
function arrayOf(values: readonly unknown[]): string {
  return `{${values.map((value) => (Array.isArray(value) ? arrayOf(value) : elementOf(textOf(value)))).join(',')}}`;
}

function elementOf(text: Text): string {
  return text === null ? 'NULL' : `"${text.replace(/["\\]/g, '\\$&')}"`;
}

function hexOf(bytes: Uint8Array): string {
  let text = '\\x';
  for (const byte of bytes) text += byte.toString(16).padStart(2, '0');
  return text;
}
