/** Records for a process without its own store: it asks the server, over the pipe on which requests arrive. */
import { askServer } from '../stdio/call.js';
import { HttpError } from '../reply.js';
import { StoreError, type StoreErrorCode } from '../store/error.js';
import type { Change, ChangeResult, Conditions, Model } from './model.js';

/** The text around the tag at the start of an answer with a record. */
const TAGGED = '{"code":0,"tag":"';
const RECORD = '","results":[';
const TAG_DIGITS = 32;
/** A tag that no record can have. */
const NO_TAG = '""';

interface ErrorAnswer {
  code: number;
  error?: string;
  reason?: string;
}

export class RemoteModel implements Model {
  tql(statement: string): string {
    return checkAnswer(askServer(statement));
  }

  read(reference: string, kind: string): string | undefined {
    if (!isPossible(reference)) return undefined;
    const answer = checkAnswer(askServer(`{"record":${reference},"kind":${JSON.stringify(kind)}}`));
    if (!answer.startsWith(TAGGED)) return undefined;
    const record = TAGGED.length + TAG_DIGITS;
    return `"${answer.slice(TAGGED.length, record)}"${answer.slice(record + RECORD.length, -2)}`;
  }

  change(change: Change, reference: string, kind: string, document: string | undefined, { match, noneMatch }: Conditions): ChangeResult {
    if (!isPossible(reference)) return 'missing';
    let call = `{"record":${reference},"kind":${JSON.stringify(kind)}`;
    if (match !== null) call += `,"match":${JSON.stringify(tagsOf(match, false))}`;
    if (noneMatch !== null) call += `,"none_match":${JSON.stringify(tagsOf(noneMatch, true))}`;
    const answer = askServer(`${call},"${change}":${document ?? 'null'}}`);
    if (!answer.startsWith('{"code":0')) {
      const { reason } = JSON.parse(answer) as ErrorAnswer;
      if (reason === 'no_record') return 'missing';
      if (reason === 'precondition') return 'precondition_failed';
      if (reason === 'denied') return 'kind_changed';
    }
    checkAnswer(answer);
    return 'done';
  }
}

/** Whether the reference fits into 64 bits. */
function isPossible(reference: string): boolean {
  return reference.length < 20 || BigInt(reference) <= 0xffff_ffff_ffff_ffffn;
}

/** The tags of a list that a record could have; anything else in it cannot match. */
function tagsOf(list: string, weakly: boolean): string {
  const tags = list.split(',').map((item) => (weakly ? item.trim().replace(/^W\//, '') : item.trim()));
  if (tags.includes('*')) return '*';
  return tags.filter((tag) => /^"[0-9a-f]{32}"$/.test(tag)).join(', ') || NO_TAG;
}

/** Returns an answer of the server, or throws the error that it reports. */
function checkAnswer(answer: string): string {
  if (answer.startsWith('{"code":0')) return answer;
  const { code, error = 'the server gave no reason', reason } = JSON.parse(answer) as ErrorAnswer;
  if (code === 0) return answer;
  if (reason === undefined) throw new HttpError(503, error);
  // The server uses the same error codes as a store in the process.
  throw new StoreError(reason as StoreErrorCode, error);
}
