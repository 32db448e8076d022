/** `zen` of GoRules' functions: evaluates decisions of the folder, and expressions. */
import { host, type RuleOrder } from '../../script/host.js';
import { step } from '../../script/pending-operations.js';
import { adapted } from '../data/client-calls.js';

interface Pending {
  readonly resolve: (response: unknown) => void;
  readonly reject: (error: Error) => void;
}

/** Evaluations of the current run that are not over, by number. */
const pending = new Map<number, Pending>();
let last = 0;

/** Creates `zen`; `follow` executes the orders that an evaluation leads to. */
export function zenOf(follow: (call: number, orders: RuleOrder[]) => void): Readonly<Record<string, unknown>> {
  const evaluate = (key: string, input: unknown = {}, options: { readonly trace?: boolean } | null = null): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const { call } = step;
      const number = ++last;
      const orders = host.evaluateDecision(call, number, String(key), JSON.stringify(input ?? null), options?.trace === true);
      pending.set(number, { resolve, reject });
      // Functions of the decision must not run within the one that has called.
      void Promise.resolve().then(() => follow(call, orders));
    });
  const evaluateNow = (isUnary: boolean) => (expression: string, context: unknown = {}): unknown =>
    JSON.parse(host.evaluateExpression(step.call, String(expression), JSON.stringify(context ?? null), isUnary));
  return {
    evaluate: adapted('zen.evaluate', evaluate as never),
    evaluateExpression: evaluateNow(false),
    evaluateUnaryExpression: evaluateNow(true),
  };
}

/** An evaluation is over: `text` is its response in JSON, or the reason why it failed. */
export function endEvaluation(number: number, isDone: boolean, text: string): void {
  const evaluation = pending.get(number);
  pending.delete(number);
  if (isDone) evaluation?.resolve(JSON.parse(text));
  else evaluation?.reject(new Error(text));
}

/** Forgets the evaluations of a run. */
export function clean(): void {
  pending.clear();
}
