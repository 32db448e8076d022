import { useEffect, useState } from 'preact/hooks';

/** A value outside of components that those which use it follow. */
export class Cell<T> {
  #value: T;
  #followers = new Set<() => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set value(value: T) {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const follower of this.#followers) follower();
  }

  /** Calls a function after each change, until what it returns is called. */
  follow(follower: () => void): () => void {
    this.#followers.add(follower);
    return () => this.#followers.delete(follower);
  }
}

export function useCell<T>(cell: Cell<T>): T {
  const [value, setValue] = useState(cell.value);
  useEffect(() => {
    setValue(() => cell.value);
    return cell.follow(() => setValue(() => cell.value));
  }, [cell]);
  return value;
}
