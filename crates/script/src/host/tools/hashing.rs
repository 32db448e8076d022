//! Digests of texts, in base64.

use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::Md5;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use super::{
    BYTES_MAX,
    coding::to_base64,
    error::{ToolError, check_length},
};

/// Computes a digest.
pub(super) fn digest(name: &str, content: &[u8]) -> Result<String, ToolError> {
    check_length("the text", content.len(), BYTES_MAX)?;
    Ok(match name {
        "md5" => to_base64(&Md5::digest(content)),
        "sha1" => to_base64(&Sha1::digest(content)),
        "sha256" => to_base64(&Sha256::digest(content)),
        "sha384" => to_base64(&Sha384::digest(content)),
        "sha512" => to_base64(&Sha512::digest(content)),
        _ => {
            return Err(ToolError::Digest {
                name: name.to_owned(),
                accepted: "md5, sha1, sha256, sha384 and sha512",
            });
        }
    })
}

/// Computes a message authentication code (RFC 2104).
pub(super) fn hmac(name: &str, key: &[u8], content: &[u8]) -> Result<String, ToolError> {
    check_length("the key", key.len(), BYTES_MAX)?;
    check_length("the text", content.len(), BYTES_MAX)?;
    macro_rules! code {
        ($digest:ty) => {{
            // Keys of any length are valid.
            let mut mac = Hmac::<$digest>::new_from_slice(key).map_err(|_| ToolError::Memory)?;
            mac.update(content);
            to_base64(&mac.finalize().into_bytes())
        }};
    }
    Ok(match name {
        "sha1" => code!(Sha1),
        "sha256" => code!(Sha256),
        "sha512" => code!(Sha512),
        _ => {
            return Err(ToolError::Digest {
                name: name.to_owned(),
                accepted: "sha1, sha256 and sha512",
            });
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"1234567890abcdef";

    /// The expected values come from `openssl dgst`; the last one is what rules written for another server get there.
    #[test]
    fn digests_are_those_of_others() {
        for (name, value) in [
            ("md5", "mWzhf2q8n+EmtXql8djJLA=="),
            ("sha1", "/5mKvBzm2PAaZ1+hlzaORMiRbpw="),
            ("sha256", "jpkWxTQMQ/oAP+LdVM1OMCev+/wNYx5M2Fj2TsCfqe0="),
            (
                "sha384",
                "tiFU1CFxQiAbWH5RVmDHqdPeZiHSXntgWNPdceIioQv5ADH/BvlF32lgOcwpos0c",
            ),
            (
                "sha512",
                "bffeM5s5rhEl8YHJIpzbkE/jHqwhmqIzUFkkAQGTkINJUiH3++jDLXP47oHcaFOcmMFD8VcA2UTIwOr7J1Z6eg==",
            ),
        ] {
            assert_eq!(digest(name, TEXT).unwrap(), value, "{name}");
        }
        for (name, value) in [
            ("sha1", "LriWPJr6L5OtpRS5O+yUVttg4mw="),
            ("sha256", "TOUbNGXSll+DCOUhODilI3XGLBJ+sBfg/UkH8USXEKs="),
            (
                "sha512",
                "z/EfkNDTK/okjQ+jyOQ+vI22o9zFjK38cTtL9r9sEy1a5thhkF4b9sr6LZdR1yE4wIPwNIzApzX7mBcKg0nT+Q==",
            ),
        ] {
            assert_eq!(hmac(name, b"abc", TEXT).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn what_is_unknown_or_too_long_is_refused() {
        assert!(
            digest("sha3", TEXT)
                .unwrap_err()
                .to_string()
                .starts_with("`sha3` is no digest; md5, ")
        );
        assert!(
            hmac("md5", b"", TEXT)
                .unwrap_err()
                .to_string()
                .ends_with("sha1, sha256 and sha512 are")
        );
        let long = vec![0; BYTES_MAX + 1];
        assert!(matches!(
            digest("md5", &long),
            Err(ToolError::TooLong { what: "the text", .. })
        ));
        assert!(matches!(
            hmac("sha1", &long, TEXT),
            Err(ToolError::TooLong { what: "the key", .. })
        ));
        assert!(matches!(
            hmac("sha1", TEXT, &long),
            Err(ToolError::TooLong { what: "the text", .. })
        ));
        assert!(hmac("sha1", b"", b"").is_ok());
    }
}
