/** The lines that QOper8's benchmark prints, word for word, with English number formatting whatever the locale. */

const NUMBER = new Intl.NumberFormat('en-US', { maximumFractionDigits: 3 });

const RULE = '===========================';

/** `block` counts from 1; `sent` is the number of messages in the blocks before it. */
export function queueIncreased(block: number, sent: number, queueLength: number): string {
  return `Block no: ${block} (${NUMBER.format(sent)}): queue length increased to ${NUMBER.format(queueLength)}`;
}

export function delayIncreased(delay_ms: number): string {
  return `delay increased to ${delay_ms}`;
}

export function queueExhausted(block: number, sent: number): string {
  return `Block no: ${block} (${NUMBER.format(sent)}): Queue exhausted`;
}

export function delayReduced(delay_ms: number): string {
  return `delay reduced to ${delay_ms}`;
}

export function completedSending(): string {
  return 'Completed sending messages';
}

/** The summary at the end of a run; `handled` are the messages of each worker, in the order of the workers' numbers. */
export function summary(messages: number, seconds: number, handled: readonly number[]): string[] {
  return [
    RULE,
    ' ',
    `${NUMBER.format(messages)} messages: ${NUMBER.format(seconds)} sec`,
    `Processing rate: ${NUMBER.format(messages / seconds)} message/sec`,
    ...handled.map((count, worker) => `Child Process ${worker}: ${NUMBER.format(count)} messages handled`),
    ' ',
    RULE,
  ];
}
