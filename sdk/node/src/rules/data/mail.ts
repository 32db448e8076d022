/** E-mail, with the names of Rengine. */
import { filledText, isNothing, text } from '../tools/arguments.js';
import { ask } from './clients.js';

/** A message. Addresses are `shop@example.org` or `Shop <shop@example.org>`, one or a list of them. */
export interface MailMessage {
  readonly to?: string | readonly string[];
  readonly cc?: string | readonly string[];
  /** Further recipients, hidden from the others. */
  readonly bcc?: string | readonly string[];
  readonly replyTo?: string | readonly string[];
  readonly subject: string;
  /** The plain text; if there is `html` too, the alternative for readers that do not show it. */
  readonly text?: string;
  readonly html?: string;
  /** Same as `text`; the name in Rengine. */
  readonly msg?: string;
}

/** The server's reply when it accepted a message. */
export interface MailReceipt {
  readonly code: number;
  /** For example `2.0.0 Ok: queued as 4F1B2`. */
  readonly reply: string;
  /** The message's id, to which replies refer. */
  readonly messageId: string;
}

const MEMBERS = ['to', 'cc', 'bcc', 'replyTo', 'subject', 'text', 'html', 'msg'];

/** Sends messages through the first server that `allow` names (`[mail.NAME]`), or through another. */
export class MailNotifier {
  readonly #source: string | null;

  constructor(source: string | null = null) {
    this.#source = isNothing(source) ? null : filledText(source, 'name');
  }

  kind(): 'EMAIL' {
    return 'EMAIL';
  }

  /**
   * Sends a message to all of its recipients, or to none. After a connection error or a timeout, the message may have been accepted
   * nevertheless.
   */
  async send(message: MailMessage): Promise<MailReceipt> {
    if (typeof message !== 'object' || message === null) throw new TypeError('`message` is an object');
    for (const name of Object.keys(message)) {
      if (!MEMBERS.includes(name)) throw new TypeError(`a message has no \`${name}\`; it has ${MEMBERS.join(', ')}`);
    }
    if (!isNothing(message.text) && !isNothing(message.msg)) throw new TypeError('a message has `text` or `msg`, which are the same');
    return ask<MailReceipt>({
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
