/** The benchmark's handler: does almost nothing, and reports the worker's id. */
import type { Finished, HandlerThis } from './self.js';

export function handler(this: HandlerThis, message: { readonly messageNo?: number }, finished: Finished): void {
  finished({ messageNo: message.messageNo, workerId: this.id, count: this.getMessageCount() });
}
