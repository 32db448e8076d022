/** The default handler, the same for all contenders: only counts messages, and answers as in QOper8's benchmark. */

let count = 0;

export interface DefaultReply {
  readonly messageNo: number;
  readonly workerId: number | string;
  readonly count: number;
}

export default function defaultHandler(message: { readonly messageNo: number }, context: { readonly worker: { readonly id: number | string } }): DefaultReply {
  count += 1;
  return { messageNo: message.messageNo, workerId: context.worker.id, count };
}
