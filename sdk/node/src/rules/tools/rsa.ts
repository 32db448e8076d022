import { host } from '../../script/host.js';
import { filledText, isNothing, text } from './arguments.js';

const BITS = 1024;

/** A pair of keys in base64. As a text it keeps the private one to itself, so that no log has it. */
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
 * RSA with PKCS#1 v1.5 padding. Keys are base64 of DER, public ones as X.509 (SubjectPublicKeyInfo), private ones as PKCS#8, of 1024 to 4096
 * bits; a key encrypts at most an eighth as many bytes less 11. What is encrypted is in base64; `null` becomes `null`.
 */
export class RSA {
  /** What `generateKeyToBase64` gives. */
  static readonly RsaKeyPair = RsaKeyPair;

  /** Encrypts with a public key: the first argument says that it is no private one. */
  static encryptToBase64(isPrivateKey: boolean, publicBase64Key: string, plaintext: string | null): string | null {
    filledText(publicBase64Key, 'publicBase64Key');
    if (isNothing(plaintext)) return null;
    if (isPrivateKey) throw new TypeError('a text is encrypted with a public key, and `isPrivateKey` says that this one is private');
    return host.rsaEncrypt(publicBase64Key, text(plaintext, 'plaintext'));
  }

  /**
   * Decrypts with a private key, as the first argument says. What another key has encrypted, or was changed, gives a text at random: an error
   * would help those who guess.
   */
  static decryptFromBase64(isPrivateKey: boolean, privateBase64Key: string, base64Ciphertext: string | null): string | null {
    filledText(privateBase64Key, 'privateBase64Key');
    if (isNothing(base64Ciphertext)) return null;
    if (!isPrivateKey) throw new TypeError('a text is decrypted with a private key, and `isPrivateKey` says that this one is public');
    return host.rsaDecrypt(privateBase64Key, text(base64Ciphertext, 'base64Ciphertext'));
  }

  /** A new pair of keys, of 1024, 2048, 3072 or 4096 bits. 1024 are soon made, and no longer thought safe. */
  static generateKeyToBase64(bits: number = BITS): RsaKeyPair {
    const [publicKey, privateKey] = host.rsaKeys(bits);
    return new RsaKeyPair(publicKey, privateKey);
  }
}
