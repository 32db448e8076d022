import { host, type Encoding } from '../../script/host.js';
import { isNothing, text } from './arguments.js';

/** Text encodings. `null` yields `null`. Texts have at most 10 MiB; texts converted to or from base58 at most 16 KiB. */
export class Coding {
  static toBase58(str: string | null): string | null {
    return recode('utf8', 'base58', str);
  }

  static fromBase58(base58Str: string | null): string | null {
    return recode('base58', 'utf8', base58Str);
  }

  static toBase64(str: string | null): string | null {
    return recode('utf8', 'base64', str);
  }

  /** Characters outside of base64 are skipped, so any text can be decoded. Accepts the URL-safe alphabet as well. */
  static fromBase64(base64Str: string | null): string | null {
    return recode('base64', 'utf8', base64Str);
  }

  static toHex(str: string | null): string | null {
    return recode('utf8', 'hex', str);
  }

  static fromHex(hexStr: string | null): string | null {
    return recode('hex', 'utf8', hexStr);
  }

  static toBase58FromHex(hexStr: string | null): string | null {
    return recode('hex', 'base58', hexStr);
  }

  static toHexFromBase58(base58Str: string | null): string | null {
    return recode('base58', 'hex', base58Str);
  }

  static toBase64FromHex(hexStr: string | null): string | null {
    return recode('hex', 'base64', hexStr);
  }

  static toHexFromBase64(base64Str: string | null): string | null {
    return recode('base64', 'hex', base64Str);
  }
}

function recode(from: Encoding, to: Encoding, str: string | null): string | null {
  return isNothing(str) ? null : host.recode(from, to, text(str, from === 'utf8' ? 'str' : `${from}Str`));
}
