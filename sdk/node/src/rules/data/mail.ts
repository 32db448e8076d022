/** E-mail under the names of Rengine. */
import { filledText, isNothing, text } from '../tools/arguments.js';
import { ask } from './clients.js';

/** A message. Addresses are `shop@example.org` or `Shop <shop@example.org>`, one or a list of them. */
export interface MailMessage {
  readonly to?: string | readonly string[];
  readonly cc?: string | readonly string[];
  /** Who gets it besides, without the others knowing. */
  readonly bcc?: string | readonly string[];
  readonly replyTo?: string | readonly string[];
  readonly subject: string;
  /** What it says; with `html` what those see who are not shown that. */
  readonly text?: string;
  readonly html?: string;
  /** The same as `text`, as Rengine names it. */
  readonly msg?: string;
}

/** What the server has said when it took a message. */
export interface MailTaken {
  readonly code: number;
  /** Such as `2.0.0 Ok: queued as 4F1B2`. */
  readonly reply: string;
  /** The name of the message, which answers to it refer to. */
  readonly messageId: string;
}

const MEMBERS = ['to', 'cc', 'bcc', 'replyTo', 'subject', 'text', 'html', 'msg'];

/** Sends messages by the first server that `allow` names (`[mail.NAME]`), or by another. */
export class MailNotifier {
  readonly #source: string | null;

  constructor(source: string | null = null) {
    this.#source = isNothing(source) ? null : filledText(source, 'name');
  }

  kind(): 'EMAIL' {
    return 'EMAIL';
  }

  /** Sends a message to all whom it names, or to nobody. Where the way there fails, or takes too long, it may have been taken nevertheless. */
  async send(message: MailMessage): Promise<MailTaken> {
    if (typeof message !== 'object' || message === null) throw new TypeError('`message` is an object');
    for (const name of Object.keys(message)) {
      if (!MEMBERS.includes(name)) throw new TypeError(`a message has no \`${name}\`; it has ${MEMBERS.join(', ')}`);
    }
    if (!isNothing(message.text) && !isNothing(message.msg)) throw new TypeError('a message has `text` or `msg`, which are the same');
    return ask<MailTaken>({
      op: 'mail',
      source: this.#source,
      message: {
        to: addresses(message.to, 'to'),
        cc: addresses(message.cc, 'cc'),
        bcc: addresses(message.bcc, 'bcc'),
        reply_to: addresses(message.replyTo, 'replyTo'),
        subject: text(message.subject, 'subject'),
        text: textOrNothing(message.text ?? message.msg, 'text'),
        html: textOrNothing(message.html, 'html'),
      },
    });
  }
}

function addresses(given: unknown, name: string): string[] {
  if (isNothing(given)) return [];
  return (Array.isArray(given) ? given : [given]).map((each: unknown) => filledText(each, name));
}

function textOrNothing(given: unknown, name: string): string | null {
  return isNothing(given) ? null : text(given, name);
}
