/** Pieces of streamed bodies. */

/** Closes the source early; errors of closing are ignored, since the body is no longer needed. */
export function closeQuietly(pieces: AsyncIterator<unknown>): void {
  void (async () => pieces.return?.())().catch(() => {});
}

/** The bytes of a piece; `utf8` encodes text. */
export function pieceBytes(piece: unknown, utf8: (text: string) => Uint8Array): Uint8Array {
  if (typeof piece === 'string') return utf8(piece);
  if (piece instanceof Uint8Array) return piece;
  if (piece instanceof ArrayBuffer) return new Uint8Array(piece);
  throw new TypeError(`a body gave a piece of type ${typeof piece}; strings, Uint8Array and ArrayBuffer are accepted`);
}
