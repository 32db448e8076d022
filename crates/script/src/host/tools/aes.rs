//! AES (FIPS 197) with keys of 128, 192 and 256 bits, in the modes CBC and ECB (NIST SP 800-38A).

use aes::{
    Aes128, Aes192, Aes256,
    cipher::{
        BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt as _, BlockModeEncrypt as _, BlockSizeUser,
        InnerIvInit as _, KeyInit,
        block_padding::{NoPadding, Pkcs7},
        common::InnerInit as _,
        consts::U16,
    },
};

use super::{
    BYTES_MAX,
    coding::{from_base64, to_base64},
    error::{ToolError, check_length},
};

/// Size of a block and of an initialization vector, in bytes.
const BLOCK: usize = 16;

/// A cipher with its key and mode.
pub(super) struct Cipher {
    key: Vec<u8>,
    /// `None` in ECB mode.
    vector: Option<[u8; BLOCK]>,
    is_padded: bool,
}

impl Cipher {
    /// Creates a cipher from its mode, key and initialization vector, both in base64. Without padding it is always AES-128: only the first
    /// 16 bytes of a longer key are used.
    pub(super) fn of(mode: &str, key: &[u8], vector: Option<&[u8]>) -> Result<Self, ToolError> {
        let (has_vector, is_padded) = match mode {
            "cbc" => (true, false),
            "cbc-pkcs7" => (true, true),
            "ecb" => (false, false),
            "ecb-pkcs7" => (false, true),
            _ => {
                return Err(ToolError::AesMode {
                    name: mode.to_owned(),
                });
            }
        };
        let mut key = from_base64(key);
        let length = key.len();
        if !is_padded {
            if length < 16 {
                let accepted = "at least 16";
                return Err(ToolError::AesKey { accepted, length });
            }
            key.truncate(16);
        }
        let length = key.len();
        if ![16, 24, 32].contains(&length) {
            let accepted = "16, 24 or 32";
            return Err(ToolError::AesKey { accepted, length });
        }
        let vector = if has_vector {
            let vector = from_base64(vector.unwrap_or_default());
            let length = vector.len();
            Some(vector.try_into().map_err(|_| ToolError::AesVector { length })?)
        } else {
            None
        };
        Ok(Self {
            key,
            vector,
            is_padded,
        })
    }

    /// Encrypts a text; the result is in base64.
    pub(super) fn encrypt(&self, content: &[u8]) -> Result<String, ToolError> {
        check_length("the text", content.len(), BYTES_MAX)?;
        let length = content.len();
        if !self.is_padded && !length.is_multiple_of(BLOCK) {
            return Err(ToolError::AesBlocks { length });
        }
        let encrypted = match self.key.len() {
            16 => self.encrypted::<Aes128>(content),
            24 => self.encrypted::<Aes192>(content),
            _ => self.encrypted::<Aes256>(content),
        }?;
        Ok(to_base64(&encrypted))
    }

    /// Decrypts a base64 text.
    pub(super) fn decrypt(&self, content: &[u8]) -> Result<Vec<u8>, ToolError> {
        // Base64 is a third longer.
        check_length("what is decrypted", content.len(), BYTES_MAX / 3 * 4 + 4 * BLOCK)?;
        let content = from_base64(content);
        let length = content.len();
        if !length.is_multiple_of(BLOCK) || (self.is_padded && length == 0) {
            return Err(ToolError::AesCiphertext { length });
        }
        match self.key.len() {
            16 => self.decrypted::<Aes128>(&content),
            24 => self.decrypted::<Aes192>(&content),
            _ => self.decrypted::<Aes256>(&content),
        }
    }

    fn encrypted<C>(&self, content: &[u8]) -> Result<Vec<u8>, ToolError>
    where
        C: BlockSizeUser<BlockSize = U16> + BlockCipherEncrypt + KeyInit,
    {
        let cipher = self.cipher::<C>()?;
        Ok(match self.vector {
            Some(vector) => {
                let cbc = cbc::Encryptor::inner_iv_init(cipher, &vector.into());
                if self.is_padded {
                    cbc.encrypt_padded_vec::<Pkcs7>(content)
                } else {
                    cbc.encrypt_padded_vec::<NoPadding>(content)
                }
            }
            None => {
                let ecb = ecb::Encryptor::inner_init(cipher);
                if self.is_padded {
                    ecb.encrypt_padded_vec::<Pkcs7>(content)
                } else {
                    ecb.encrypt_padded_vec::<NoPadding>(content)
                }
            }
        })
    }

    fn decrypted<C>(&self, content: &[u8]) -> Result<Vec<u8>, ToolError>
    where
        C: BlockSizeUser<BlockSize = U16> + BlockCipherDecrypt + KeyInit,
    {
        let cipher = self.cipher::<C>()?;
        let decrypted = match self.vector {
            Some(vector) => {
                let cbc = cbc::Decryptor::inner_iv_init(cipher, &vector.into());
                if self.is_padded {
                    cbc.decrypt_padded_vec::<Pkcs7>(content)
                } else {
                    cbc.decrypt_padded_vec::<NoPadding>(content)
                }
            }
            None => {
                let ecb = ecb::Decryptor::inner_init(cipher);
                if self.is_padded {
                    ecb.decrypt_padded_vec::<Pkcs7>(content)
                } else {
                    ecb.decrypt_padded_vec::<NoPadding>(content)
                }
            }
        };
        decrypted.map_err(|_| ToolError::AesPadding)
    }

    fn cipher<C: KeyInit>(&self) -> Result<C, ToolError> {
        C::new_from_slice(&self.key).map_err(|_| ToolError::AesKey {
            accepted: "16, 24 or 32",
            length: self.key.len(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "abcdefghijklmnopqrstuvwxyz";
    /// "1234567890abcdef"
    const VECTOR: &[u8] = b"MTIzNDU2Nzg5MGFiY2RlZg==";

    /// A key of this many bytes: 0, 1, 2 and so on.
    fn key(length: u8) -> Vec<u8> {
        to_base64(&(0..length).collect::<Vec<_>>()).into_bytes()
    }

    fn encrypt(mode: &str, key: &[u8], content: &str) -> String {
        let encrypted =
            Cipher::of(mode, key, Some(VECTOR)).and_then(|cipher| cipher.encrypt(content.as_bytes()));
        encrypted.unwrap_or_else(|error| format!("error: {error}"))
    }

    fn decrypt(mode: &str, key: &[u8], content: &str) -> String {
        let decrypted =
            Cipher::of(mode, key, Some(VECTOR)).and_then(|cipher| cipher.decrypt(content.as_bytes()));
        match decrypted {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    /// The expected values come from `openssl enc`.
    #[test]
    fn texts_are_encrypted_as_elsewhere_and_come_back() {
        let blocks = &TEXT[..16];
        for (mode, length, content, encrypted) in [
            (
                "cbc-pkcs7",
                16,
                TEXT,
                "BmXgI2S4hAKAPHte4shr8qQxsJBiQj9939de3Y9KJ/8=",
            ),
            (
                "cbc-pkcs7",
                24,
                TEXT,
                "oI8PqCzaJUZDRaAvheSw5v72IuFP4azJW6Df0LddgOA=",
            ),
            (
                "cbc-pkcs7",
                32,
                TEXT,
                "DwVyQen3mNrfFUquiUdWJ6pur655gPz6yfUUIqt9dPU=",
            ),
            ("cbc-pkcs7", 32, "", "G9MNPcrvtnb1+l80dL1iPA=="),
            ("cbc", 16, blocks, "BmXgI2S4hAKAPHte4shr8g=="),
            (
                "ecb-pkcs7",
                32,
                TEXT,
                "Cwv6iCw98vV6/z/ZYB70zvvdNoMhTT4SjBVwKQK8/kU=",
            ),
            ("ecb", 16, blocks, "0lNj/HITN2SKaPNKvvO0BQ=="),
            // Only the first 16 bytes of a longer key are used.
            ("cbc", 32, blocks, "BmXgI2S4hAKAPHte4shr8g=="),
            ("ecb", 17, blocks, "0lNj/HITN2SKaPNKvvO0BQ=="),
        ] {
            let key = key(length);
            assert_eq!(encrypt(mode, &key, content), encrypted, "{mode} {length}");
            assert_eq!(decrypt(mode, &key, encrypted), content, "{mode} {length}");
        }
    }

    #[test]
    fn what_cannot_be_encrypted_is_named() {
        for (mode, length, content, error) in [
            ("ctr", 16, TEXT, "`ctr` is no mode of AES"),
            (
                "cbc-pkcs7",
                17,
                TEXT,
                "an AES key has 16, 24 or 32 bytes, and this one has 17",
            ),
            (
                "ecb",
                15,
                TEXT,
                "an AES key has at least 16 bytes, and this one has 15",
            ),
            (
                "cbc",
                16,
                TEXT,
                "AES without padding takes a multiple of 16 bytes, and this text has 26",
            ),
        ] {
            let refused = encrypt(mode, &key(length), content);
            assert!(refused.contains(error), "{refused}");
        }
        let short = Cipher::of("cbc-pkcs7", &key(32), Some(b"MTIz")).map(|_| ());
        assert!(matches!(short, Err(ToolError::AesVector { length: 3 })));
        let none = Cipher::of("cbc", &key(32), None).map(|_| ());
        assert!(matches!(none, Err(ToolError::AesVector { length: 0 })));
        assert!(Cipher::of("ecb", &key(32), None).is_ok());
    }

    #[test]
    fn what_cannot_be_decrypted_is_named() {
        let encrypted = encrypt("cbc-pkcs7", &key(32), TEXT);
        let refused = decrypt("cbc-pkcs7", &key(32), &encrypted[..20]);
        assert!(refused.contains("has 15 bytes when read as base64"), "{refused}");
        let refused = decrypt("cbc-pkcs7", &key(32), "");
        assert!(refused.contains("has 0 bytes when read as base64"), "{refused}");
        // Without its last block the text is incomplete.
        let refused = decrypt("ecb-pkcs7", &key(32), &encrypt("ecb", &key(16), &TEXT[..16]));
        assert!(refused.contains("the padding is wrong"), "{refused}");
    }

    #[test]
    fn lengths_are_bounded() {
        let cipher = Cipher::of("ecb-pkcs7", &key(16), None).unwrap();
        let longest = vec![b'x'; BYTES_MAX];
        let encrypted = cipher.encrypt(&longest).unwrap();
        assert!(cipher.decrypt(encrypted.as_bytes()).unwrap() == longest);
        let longer = vec![b'x'; BYTES_MAX * 2];
        assert!(matches!(
            cipher.encrypt(&longer),
            Err(ToolError::TooLong { what: "the text", .. })
        ));
        assert!(matches!(
            cipher.decrypt(&longer),
            Err(ToolError::TooLong {
                what: "what is decrypted",
                ..
            })
        ));
    }
}
