import { host } from '../../script/host.js';
import { isNothing, text } from './arguments.js';

/** Digests of texts of at most 10 MiB, in base64; `null` yields `null`. */
export class Hashing {
  static md5(str: string | null): string | null {
    return isNothing(str) ? null : host.hash('md5', text(str, 'str'));
  }

  static sha1(str: string | null): string | null {
    return isNothing(str) ? null : host.hash('sha1', text(str, 'str'));
  }

  static sha256(str: string | null): string | null {
    return isNothing(str) ? null : host.hash('sha256', text(str, 'str'));
  }

  static sha384(str: string | null): string | null {
    return isNothing(str) ? null : host.hash('sha384', text(str, 'str'));
  }

  static sha512(str: string | null): string | null {
    return isNothing(str) ? null : host.hash('sha512', text(str, 'str'));
  }

  static hmacSha1(key: string, str: string | null): string | null {
    return isNothing(str) ? null : host.hmac('sha1', text(key, 'key'), text(str, 'str'));
  }

  static hmacSha256(key: string, str: string | null): string | null {
    return isNothing(str) ? null : host.hmac('sha256', text(key, 'key'), text(str, 'str'));
  }

  static hmacSha512(key: string, str: string | null): string | null {
    return isNothing(str) ? null : host.hmac('sha512', text(key, 'key'), text(str, 'str'));
  }
}
