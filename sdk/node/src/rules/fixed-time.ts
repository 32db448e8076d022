/** A fixed current time for tests of rules. */

/** Makes `Date` find this time, in milliseconds since 1970, wherever it would take the current one. */
export function fixTime(now: number | null): void {
  if (now === null) return;
  const Current = Date;
  function Fixed(...values: unknown[]): Date | string {
    if (new.target === undefined) return new Current(now!).toString();
    return Reflect.construct(Current, values.length === 0 ? [now] : values, new.target) as Date;
  }
  Object.defineProperty(Fixed, 'prototype', { value: Current.prototype, writable: false });
  Object.defineProperty(Current.prototype, 'constructor', { value: Fixed, writable: true, configurable: true });
  for (const name of ['UTC', 'parse'] as const) Object.defineProperty(Fixed, name, { value: Current[name] });
  Object.defineProperty(Fixed, 'now', { value: () => now });
  Object.defineProperty(Fixed, 'name', { value: 'Date' });
  Object.defineProperty(globalThis, 'Date', { value: Fixed, writable: true, configurable: true });
}
