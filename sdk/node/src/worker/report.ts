/** Writes a failure to standard error, which the server logs line by line. */
export function report(what: string, error: unknown): void {
  const detail = error instanceof Error ? (error.stack ?? String(error)) : String(error);
  process.stderr.write(`forebay: ${what}: ${detail}\n`);
}
