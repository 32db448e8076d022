import { filledText, isNothing, text, wholeNumber } from '../tools/arguments.js';
import { ask } from './clients.js';

const TIME_MS = { fallback: 30_000, min: 1, max: 24 * 3600_000 };
const ARGUMENTS_MAX = 1000;

/** The result of a program. */
export interface ProcessResult {
  /** Null if a signal ended it. */
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the programs listed in `allow = { process = [...] }`, by their absolute paths and without a shell. */
export class ProcessClient {
  /** Runs a program to its end. It is killed, with all its children, after `timeoutMs`, and at the end of the run in any case. */
  async execute(program: string, args: readonly string[] = [], options: { stdin?: string; timeoutMs?: number } = {}): Promise<ProcessResult> {
    if (!Array.isArray(args) || args.length > ARGUMENTS_MAX) throw new TypeError(`\`args\` is an array of at most ${ARGUMENTS_MAX} texts`);
    const { stdin, timeoutMs = TIME_MS.fallback } = options;
    return ask<ProcessResult>({
      op: 'process',
      program: filledText(program, 'program'),
      args: args.map((each: unknown) => text(each, 'args')),
      stdin: isNothing(stdin) ? '' : text(stdin, 'stdin'),
      time_ms: wholeNumber(timeoutMs, 'timeoutMs', TIME_MS.min, TIME_MS.max),
    });
  }
}
