/** The handler of the benchmark: it does next to nothing, and says which worker it is in. */
import type { Finished, HandlerThis } from './self.js';

export function handler(this: HandlerThis, message: { readonly messageNo?: number }, finished: Finished): void {
  finished({ messageNo: message.messageNo, workerId: this.id, count: this.getMessageCount() });
}
