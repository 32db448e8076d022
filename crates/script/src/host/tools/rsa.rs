//! RSA (RFC 8017): generation of key pairs, and encryption with PKCS#1 v1.5 padding.
//!
//! Keys are base64 of DER: public keys as X.509 `SubjectPublicKeyInfo` (RFC 5280), private keys as PKCS#8 (RFC 5208).

use getrandom::SysRng;
use rsa::{
    BoxedUint, Pkcs1v15Encrypt, PrivateKey, PublicKey,
    pkcs8::{DecodePrivateKey as _, DecodePublicKey as _, EncodePrivateKey as _, EncodePublicKey as _},
    traits::PublicKeyParts as _,
};

use super::{
    coding::{from_base64, to_base64},
    error::{ToolError, check_length},
    primes::random_prime,
};

/// The exponent of new public keys.
const EXPONENT: u64 = 65_537;
/// Maximum number of bits of a key.
const BITS_MAX: u32 = 4096;
/// Maximum length in bytes of a text that is read as a key or as a ciphertext.
const TEXT_MAX: usize = 16 << 10;
/// Minimum size of the padding in bytes.
const PADDING: usize = 11;

/// Generates a key pair of 1024, 2048, 3072 or 4096 bits: the public key, then the private key. Takes some milliseconds, or seconds for
/// many bits; `is_over` is checked often, and stops it.
pub(super) fn new_keys(bits: f64, is_over: impl Fn() -> bool) -> Result<Vec<String>, ToolError> {
    match bits {
        1024.0 => new_pair::<8>(is_over),
        2048.0 => new_pair::<16>(is_over),
        3072.0 => new_pair::<24>(is_over),
        4096.0 => new_pair::<32>(is_over),
        _ => Err(ToolError::RsaBits { bits }),
    }
}

/// Generates a key pair whose primes have `WORDS` words each.
fn new_pair<const WORDS: usize>(is_over: impl Fn() -> bool) -> Result<Vec<String>, ToolError> {
    loop {
        let p = random_prime::<WORDS>(&is_over)?;
        let q = random_prime::<WORDS>(&is_over)?;
        // About one prime in 65,537 does not fit the exponent, and two close primes are very rare.
        if are_close(&p, &q) {
            continue;
        }
        let Ok(key) = PrivateKey::from_p_q(p, q, BoxedUint::from(EXPONENT)) else {
            continue;
        };
        let public = key.to_public_key().to_public_key_der();
        let public = public.map_err(|error| ToolError::RsaPublicKey(Some(error)))?;
        let private = key.to_pkcs8_der();
        let private = private.map_err(|error| ToolError::RsaPrivateKey(Some(error)))?;
        return Ok(vec![to_base64(public.as_bytes()), to_base64(private.as_bytes())]);
    }
}

/// Whether two primes share their first 96 bits, in which case their product could be factored.
fn are_close(p: &BoxedUint, q: &BoxedUint) -> bool {
    let (p, q) = (p.to_be_bytes(), q.to_be_bytes());
    p.iter().zip(&q).take(12).all(|(p, q)| p == q)
}

/// Encrypts a text with a public key; the result is in base64.
pub(super) fn encrypt(key: &[u8], content: &[u8]) -> Result<String, ToolError> {
    check_length("the key", key.len(), TEXT_MAX)?;
    let key = PublicKey::from_public_key_der(&from_base64(key));
    let key = key.map_err(|error| ToolError::RsaPublicKey(Some(error)))?;
    if key.n().bit_width() > BITS_MAX {
        return Err(ToolError::RsaPublicKey(None));
    }
    let (max, length) = (key.size().saturating_sub(PADDING), content.len());
    if length > max {
        return Err(ToolError::RsaText { max, length });
    }
    Ok(to_base64(&key.encrypt(&mut SysRng, Pkcs1v15Encrypt, content)?))
}

/// Decrypts a base64 text with a private key. A text that was modified, or encrypted with another key, gives random bytes instead of an
/// error: an error would help attackers.
pub(super) fn decrypt(key: &[u8], content: &[u8]) -> Result<Vec<u8>, ToolError> {
    check_length("the key", key.len(), TEXT_MAX)?;
    check_length("what is decrypted", content.len(), TEXT_MAX)?;
    let key = PrivateKey::from_pkcs8_der(&from_base64(key));
    let key = key.map_err(|error| ToolError::RsaPrivateKey(Some(error)))?;
    if key.n().bit_width() > BITS_MAX {
        return Err(ToolError::RsaPrivateKey(None));
    }
    let content = from_base64(content);
    let (expected, length) = (key.size(), content.len());
    if length != expected {
        return Err(ToolError::RsaCiphertext { expected, length });
    }
    Ok(key.decrypt_blinded(&mut SysRng, Pkcs1v15Encrypt, &content)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
    /// A key pair made by `openssl genpkey`, and texts encrypted with it by `openssl pkeyutl`.
    const PUBLIC: &str = "MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDUjxfvfeLoQKfxMNmXYfSOePes2pmucx7D+tfiaQ0yRPK9h5lu74CAiSm7+454\
        ccr01xQhEL5C/vcUOXI7ahOwSLszdY3qOIGMPGC+Cnys4PB5MMF0Oh2f0qvURj7TgAF5GOMuNMNWlus0j0e+OzZ0kkGY3ygwSXb0\
        F67/zUhNqQIDAQAB";
    const PRIVATE: &str = "MIICdwIBADANBgkqhkiG9w0BAQEFAASCAmEwggJdAgEAAoGBANSPF+994uhAp/Ew2Zdh9I5496zama5zHsP61+JpDTJE8r2HmW7v\
        gICJKbv7jnhxyvTXFCEQvkL+9xQ5cjtqE7BIuzN1jeo4gYw8YL4KfKzg8HkwwXQ6HZ/Sq9RGPtOAAXkY4y40w1aW6zSPR747NnSS\
        QZjfKDBJdvQXrv/NSE2pAgMBAAECgYEAzqjJFroIMNMb9W4PQBWm1hZah56JqIiYsuZhmumUQPm0H/2Eec013MJ+5xuu6v+H2gB6\
        u6MxuKV3yBwKKiX6OLb3Xu/AGPMLUbkpfb9j3waUgBZS9MniwexoZv57wtb0GHSKeqTJ7M0SJNw/Cicr1Eyc65Kq/Ivp/q1DtOul\
        53kCQQDs1JIeaERxcWFkL0jHPyKi2o80HIkREKX4LOd5qYnfZETqjGf80cgO2MZ5kgzlxXOZ+57QAheM5f9+w6EW+qd3AkEA5cOW\
        laRtaaR3OiXgGQ5YraatXU5TGE6FhS69+SkaA8Z3z/3TW/8EiRa0g3lJ+TYKx35YK+fAyRM/SAiR5Gg73wJADaCRo9RGE+z9OKGL\
        44MbgBlpYgs+S9AUbLpQu2xo9YS0fnaDyUVc6JXKndYsjdAVvcd/tOJZ7o6Ra/7ftw3HMwJAfRbfBNlgOAOyZZX5S6rj3KbB++qI\
        ktMtHjU0eFJIN4X19ObcC1nrvjb+UBXYkDU76SCAIGcsLkysRytjQlb9QQJBANDfT0HXjczqU6kpWj8KfmTT9mdy5y+UNF/MZvIN\
        p6m5UAKfvQOY/NIbuR0u/oIEQEv81o8YudyF5nOXEBvdb08=";
    const ENCRYPTED: &str = "zCZUNH+/DlmX72oc62Ez/qe5k0dUFLgsJmjrkeIJCLQ8hOTmf0pOASZPEWNNJQke0WE7AGV/juyHNdstS8TbZqCMDqEFzdBt0V1d\
        JHDlcQQHAxVPb7DbDDNlIEURJy9AZ7GlkKd81H7hwx/ZSZV6pDCQdQ6nMIi4W8bR0PlChqc=";
    /// A key of 512 bits.
    const SHORT: &str = "MFwwDQYJKoZIhvcNAQEBBQADSwAwSAJBAKzzBpEExGR9U3v7mENP1aal49wgK7t9e60ew4OCzgBbceIBcrWq45RWMQ6+IBm+3IHt\
        ICa/GDeLkNpCRs7LrWMCAwEAAQ==";

    fn pair(bits: f64) -> (String, String) {
        let keys = new_keys(bits, || false).unwrap();
        let [public, private] = <[String; 2]>::try_from(keys).unwrap();
        (public, private)
    }

    #[test]
    fn what_others_have_encrypted_is_read() {
        assert_eq!(decrypt(PRIVATE.as_bytes(), ENCRYPTED.as_bytes()).unwrap(), TEXT);
    }

    #[test]
    fn texts_come_back() {
        let (public, private) = pair(1024.0);
        for (public, private) in [(&*public, &*private), (PUBLIC, PRIVATE)] {
            for text in [TEXT, b"", &[0; 117]] {
                let encrypted = encrypt(public.as_bytes(), text).unwrap();
                assert_eq!(decrypt(private.as_bytes(), encrypted.as_bytes()).unwrap(), text);
                assert_ne!(
                    encrypt(public.as_bytes(), text).unwrap(),
                    encrypted,
                    "the padding is random"
                );
            }
        }
    }

    #[test]
    fn keys_are_new_and_have_the_bits_that_were_asked_for() {
        let (public, _) = pair(1024.0);
        assert_ne!(public, pair(1024.0).0);
        for bits in [1024, 2048] {
            let (public, private) = pair(f64::from(bits));
            let public = PublicKey::from_public_key_der(&from_base64(public.as_bytes())).unwrap();
            assert_eq!(public.n().bit_width(), bits);
            let private = PrivateKey::from_pkcs8_der(&from_base64(private.as_bytes())).unwrap();
            assert_eq!(public.e(), &BoxedUint::from(65_537_u64));
            private.validate().unwrap();
            assert_eq!(private.to_public_key(), public);
        }
        for bits in [0.0, 512.0, 1024.5, 4097.0, 8192.0, f64::NAN, f64::INFINITY] {
            let refused = new_keys(bits, || false).unwrap_err().to_string();
            assert!(
                refused.ends_with("are not made; 1024, 2048, 3072 and 4096 are accepted"),
                "{refused}"
            );
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for key in ["", "AAAA", PRIVATE, SHORT, &PUBLIC[..100]] {
            let refused = encrypt(key.as_bytes(), TEXT).unwrap_err();
            assert!(matches!(refused, ToolError::RsaPublicKey(_)), "{refused}");
        }
        for key in ["", "AAAA", PUBLIC, &PRIVATE[..100]] {
            let refused = decrypt(key.as_bytes(), ENCRYPTED.as_bytes()).unwrap_err();
            assert!(matches!(refused, ToolError::RsaPrivateKey(_)), "{refused}");
        }
        let long = vec![b'A'; TEXT_MAX + 1];
        assert!(matches!(
            encrypt(&long, TEXT),
            Err(ToolError::TooLong { what: "the key", .. })
        ));
        assert!(matches!(
            decrypt(&long, TEXT),
            Err(ToolError::TooLong { what: "the key", .. })
        ));
    }

    #[test]
    fn what_does_not_fit_the_key_is_refused() {
        let refused = encrypt(PUBLIC.as_bytes(), &[0; 118]).unwrap_err();
        assert!(
            matches!(
                refused,
                ToolError::RsaText {
                    max: 117,
                    length: 118
                }
            ),
            "{refused}"
        );
        let refused = decrypt(PRIVATE.as_bytes(), &ENCRYPTED.as_bytes()[..100]).unwrap_err();
        assert!(
            matches!(
                refused,
                ToolError::RsaCiphertext {
                    expected: 128,
                    length: 75
                }
            ),
            "{refused}"
        );
        let long = vec![b'A'; TEXT_MAX + 1];
        let refused = decrypt(PRIVATE.as_bytes(), &long).unwrap_err();
        assert!(
            matches!(
                refused,
                ToolError::TooLong {
                    what: "what is decrypted",
                    ..
                }
            ),
            "{refused}"
        );
    }

    #[test]
    fn what_another_key_has_encrypted_is_not_read() {
        let (public, _) = pair(1024.0);
        let encrypted = encrypt(public.as_bytes(), TEXT).unwrap();
        assert!(decrypt(PRIVATE.as_bytes(), encrypted.as_bytes()).is_ok_and(|text| text != TEXT));
    }

    #[test]
    fn the_search_for_keys_can_be_stopped() {
        assert!(matches!(new_keys(4096.0, || true), Err(ToolError::OutOfTime)));
    }
}
