import { host, type AesMode } from '../../script/host.js';
import { filledText, isNothing, text } from './arguments.js';

const KEY_BYTES = 32;

/**
 * AES for texts of at most 10 MiB. Keys, initialization vectors and ciphertexts are base64; `null` yields `null`.
 *
 * With PKCS#7 padding, keys have 16, 24 or 32 bytes and initialization vectors 16. Without padding, it is AES-128: the text's length is a
 * multiple of 16 bytes, and only the first 16 bytes of the key are used. ECB reveals which blocks are equal; use it only for data encrypted
 * by others.
 */
export class AES {
  static encryptCbcNoPaddingToBase64(base64Key: string, base64Iv: string, plaintext: string | null): string | null {
    return encrypt('cbc', base64Key, base64Iv, plaintext);
  }

  static decryptCbcNoPaddingFromBase64(base64Key: string, base64Iv: string, base64Ciphertext: string | null): string | null {
    return decrypt('cbc', base64Key, base64Iv, base64Ciphertext);
  }

  static encryptCbcPkcs7ToBase64(base64Key: string, base64Iv: string, plaintext: string | null): string | null {
    return encrypt('cbc-pkcs7', base64Key, base64Iv, plaintext);
  }

  static decryptCbcPkcs7FromBase64(base64Key: string, base64Iv: string, base64Ciphertext: string | null): string | null {
    return decrypt('cbc-pkcs7', base64Key, base64Iv, base64Ciphertext);
  }

  static encryptEcbNoPaddingToBase64(base64Key: string, plaintext: string | null): string | null {
    return encrypt('ecb', base64Key, null, plaintext);
  }

  static decryptEcbNoPaddingFromBase64(base64Key: string, base64Ciphertext: string | null): string | null {
    return decrypt('ecb', base64Key, null, base64Ciphertext);
  }

  static encryptEcbPkcs7ToBase64(base64Key: string, plaintext: string | null): string | null {
    return encrypt('ecb-pkcs7', base64Key, null, plaintext);
  }

  static decryptEcbPkcs7FromBase64(base64Key: string, base64Ciphertext: string | null): string | null {
    return decrypt('ecb-pkcs7', base64Key, null, base64Ciphertext);
  }

  /** A new 256-bit key. */
  static generateKeyToBase64(): string {
    return host.randomBase64(KEY_BYTES);
  }
}

function encrypt(mode: AesMode, key: string, vector: string | null, plaintext: string | null): string | null {
  filledText(key, 'base64Key');
  if (isNothing(plaintext)) return null;
  return host.aesEncrypt(mode, key, vectorOf(mode, vector), text(plaintext, 'plaintext'));
}

function decrypt(mode: AesMode, key: string, vector: string | null, ciphertext: string | null): string | null {
  filledText(key, 'base64Key');
  if (isNothing(ciphertext)) return null;
  return host.aesDecrypt(mode, key, vectorOf(mode, vector), text(ciphertext, 'base64Ciphertext'));
}

function vectorOf(mode: AesMode, vector: string | null): string | null {
  return mode === 'ecb' || mode === 'ecb-pkcs7' ? null : filledText(vector, 'base64Iv');
}
