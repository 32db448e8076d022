/** JSON as text, with every digit as it was written: reading it into numbers would lose some. */
import type { JSX } from 'preact';

const TOKENS = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;
/** Longest text that is drawn with colours. */
const COLOURED_MAX = 200_000;

type Reviver = (name: string, value: unknown, context?: { source: string }) => unknown;

/** Reads JSON; numbers that JavaScript cannot hold keep their digits when they are written again, where the browser can do that. */
export function exact(text: string): unknown {
  const { rawJSON } = JSON as { rawJSON?: (text: string) => unknown };
  const keep: Reviver = (_, value, context) => (typeof value === 'number' && rawJSON && context && String(value) !== context.source ? rawJSON(context.source) : value);
  return (JSON.parse as (text: string, keep: Reviver) => unknown)(text, keep);
}

const kind = (token: string, key: boolean): string => (key ? 'key' : token.startsWith('"') ? 'string' : /^[-\d]/.test(token) ? 'number' : /^[a-z]/.test(token) ? 'word' : '');

/** JSON with line breaks and indentation. Text that is no JSON stays as it is. */
export function indented(text: string): string {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  const tokens = text.match(TOKENS) ?? [];
  let depth = 0;
  let out = '';
  tokens.forEach((token, at) => {
    const next = tokens[at + 1] ?? '';
    const line = (): string => `\n${'  '.repeat(depth)}`;
    if (token === '{' || token === '[') {
      const empty = next === '}' || next === ']';
      depth += empty ? 0 : 1;
      out += empty ? token : token + line();
    } else if (token === '}' || token === ']') {
      const empty = tokens[at - 1] === '{' || tokens[at - 1] === '[';
      depth -= empty ? 0 : 1;
      out += empty ? token : line() + token;
    } else out += token === ',' ? token + line() : token === ':' ? ': ' : token;
  });
  return out;
}

/** JSON text with its types in colours. */
export function Json({ text }: { text: string }): JSX.Element {
  const laidOut = indented(text);
  if (laidOut.length > COLOURED_MAX)
    return (
      <pre class="code" tabIndex={0}>
        {laidOut}
      </pre>
    );
  const pieces: JSX.Element[] = [];
  let from = 0;
  for (const { 0: token, index } of laidOut.matchAll(TOKENS)) {
    const key = token.startsWith('"') && laidOut[index + token.length] === ':';
    pieces.push(
      <>
        {laidOut.slice(from, index)}
        <span class={kind(token, key)}>{token}</span>
      </>,
    );
    from = index + token.length;
  }
  return (
    <pre class="code json" tabIndex={0}>
      {pieces}
    </pre>
  );
}

/** A value in a line of a table, shortened. */
export function preview(value: unknown, most = 120): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** Why a text is no JSON, or nothing. */
export function jsonError(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
