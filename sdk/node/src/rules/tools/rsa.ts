import { host } from '../../script/host.js';
import { filledText, isNothing, text } from './arguments.js';

const BITS = 1024;

/** A key pair in base64. Its text form omits the private key, so that it never appears in logs. */
export class RsaKeyPair {
  readonly #publicKey: string;
  readonly #privateKey: string;

  constructor(publicKey: string, privateKey: string) {
    this.#publicKey = filledText(publicKey, 'publicKey');
    this.#privateKey = filledText(privateKey, 'privateKey');
  }

  getPublicKey(): string {
    return this.#publicKey;
  }

  getPrivateKey(): string {
    return this.#privateKey;
  }

  toString(): string {
    return `RsaKeyPair [publicKey=${this.#publicKey}, privateKey=***]`;
  }

  toJSON(): { publicKey: string; privateKey: string } {
    return { publicKey: this.#publicKey, privateKey: this.#privateKey };
  }
}

/**
 * RSA with PKCS#1 v1.5 padding. Keys are base64 DER of 1024 to 4096 bits: public keys as X.509 (SubjectPublicKeyInfo), private keys as
 * PKCS#8. A key encrypts at most its length in bytes less 11. Ciphertexts are base64; `null` yields `null`.
 */
export class RSA {
  /** The result of `generateKeyToBase64`. */
  static readonly RsaKeyPair = RsaKeyPair;

  /** Encrypts with a public key; the first argument must say that it is not private. */
  static encryptToBase64(isPrivateKey: boolean, publicBase64Key: string, plaintext: string | null): string | null {
    filledText(publicBase64Key, 'publicBase64Key');
    if (isNothing(plaintext)) return null;
    if (isPrivateKey) throw new TypeError('a text is encrypted with a public key, and `isPrivateKey` says that this one is private');
    return host.rsaEncrypt(publicBase64Key, text(plaintext, 'plaintext'));
  }

  /**
   * Decrypts with a private key, as the first argument must say. A ciphertext made with another key, or tampered with, yields random text:
   * an error would help an attacker.
   */
  static decryptFromBase64(isPrivateKey: boolean, privateBase64Key: string, base64Ciphertext: string | null): string | null {
    filledText(privateBase64Key, 'privateBase64Key');
    if (isNothing(base64Ciphertext)) return null;
    if (!isPrivateKey) throw new TypeError('a text is decrypted with a private key, and `isPrivateKey` says that this one is public');
    return host.rsaDecrypt(privateBase64Key, text(base64Ciphertext, 'base64Ciphertext'));
  }

  /** A new key pair of 1024, 2048, 3072 or 4096 bits. 1024 bits are fast to generate but no longer considered secure. */
  static generateKeyToBase64(bits: number = BITS): RsaKeyPair {
    const [publicKey, privateKey] = host.rsaKeys(bits);
    return new RsaKeyPair(publicKey, privateKey);
  }
}
