//! The fields of an answer as its header block has them.

use super::hpack::Decoder;
use crate::{
    failure::Class,
    response::{Broken, HEAD_BYTES_MAX},
};

/// What of a header section matters to whoever waits for the answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Section {
    pub(super) status: Option<u16>,
    pub(super) length: Option<u64>,
    /// Why it belongs to no answer.
    pub(super) wrong: Option<&'static str>,
}

impl Section {
    /// Reads a header block. What it says is appended to `kept` in the form that HTTP/1.1 has for it. An error ends the connection: no
    /// later block could be read.
    pub(super) fn read(
        decoder: &mut Decoder,
        block: &[u8],
        mut kept: Option<&mut Vec<u8>>,
    ) -> Result<Self, Broken> {
        let mut section = Self::default();
        let (mut bytes, mut regular) = (0_usize, false);
        let decoded = decoder.decode(block, |name, value| {
            bytes = bytes.saturating_add(name.len() + value.len());
            if bytes > HEAD_BYTES_MAX {
                return;
            }
            if name.first() == Some(&b':') {
                section.take_status(name, value, regular);
                if let (Some(kept), Some(status)) = (&mut kept, section.status) {
                    kept.extend_from_slice(format!("HTTP/1.1 {status} \r\n").as_bytes());
                }
                return;
            }
            regular = true;
            section.take_field(name, value);
            if let Some(kept) = &mut kept {
                for part in [name, b": ", value, b"\r\n"] {
                    kept.extend_from_slice(part);
                }
            }
        });
        if decoded.is_none() {
            return Err(Broken {
                class: Class::Malformed,
                what: "a header block cannot be decompressed",
            });
        }
        if bytes > HEAD_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if let Some(kept) = kept {
            kept.extend_from_slice(b"\r\n");
        }
        Ok(section)
    }

    fn take_status(&mut self, name: &[u8], value: &[u8], late: bool) {
        let status = match value {
            [a @ b'1'..=b'9', b @ b'0'..=b'9', c @ b'0'..=b'9'] if name == b":status" => {
                Some(u16::from(a - b'0') * 100 + u16::from(b - b'0') * 10 + u16::from(c - b'0'))
            }
            _ => None,
        };
        if status.is_none() || late || self.status.is_some() {
            self.wrong = Some("an answer's status is not one field of three digits at its head");
        }
        self.status = self.status.or(status);
    }

    fn take_field(&mut self, name: &[u8], value: &[u8]) {
        if name.is_empty()
            || name
                .iter()
                .any(|byte| byte.is_ascii_uppercase() || *byte <= b' ' || *byte >= 0x7f)
        {
            self.wrong = Some("an answer has a field name that HTTP/2 does not allow");
        } else if value.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n')) {
            self.wrong = Some("an answer has a field value with a control character");
        } else if matches!(
            name,
            b"connection" | b"transfer-encoding" | b"keep-alive" | b"upgrade" | b"proxy-connection"
        ) {
            self.wrong = Some("an answer has a field that only HTTP/1.1 has");
        } else if name == b"content-length" {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(value)
                .ok()
                .filter(|_| digits)
                .and_then(|text| text.parse().ok());
            if length.is_none() || self.length.is_some_and(|known| Some(known) != length) {
                self.wrong = Some("content-length is not one decimal number");
            }
            self.length = length;
        }
    }
}

/// A header section beyond what is read.
pub(super) const TOO_LONG: Broken = Broken {
    class: Class::OverLong,
    what: "the header section of an answer is longer than 64 KiB",
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::h2::hpack;

    fn read(fields: &[(&str, &str)]) -> Result<(Section, String), Class> {
        let (mut block, mut kept) = (Vec::new(), Vec::new());
        for (name, value) in fields {
            hpack::encode(&mut block, name.as_bytes(), value.as_bytes());
        }
        let section =
            Section::read(&mut Decoder::new(), &block, Some(&mut kept)).map_err(|broken| broken.class)?;
        Ok((section, String::from_utf8(kept).unwrap()))
    }

    #[test]
    fn a_section_is_kept_as_http_1_would_write_it() {
        let (section, kept) = read(&[(":status", "404"), ("content-length", "12"), ("x", "y")]).unwrap();
        assert_eq!(
            (section.status, section.length, section.wrong),
            (Some(404), Some(12), None)
        );
        assert_eq!(kept, "HTTP/1.1 404 \r\ncontent-length: 12\r\nx: y\r\n\r\n");
    }

    #[test]
    fn what_no_answer_may_have_is_noticed() {
        for fields in [
            &[(":status", "20")][..],
            &[(":status", "abc")],
            &[("x", "y"), (":status", "200")],
            &[(":status", "200"), (":status", "200")],
            &[(":path", "/")],
            &[(":status", "200"), ("X", "y")],
            &[(":status", "200"), ("", "y")],
            &[(":status", "200"), ("x", "a\nb")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("content-length", "+1")],
            &[
                (":status", "200"),
                ("content-length", "1"),
                ("content-length", "2"),
            ],
        ] {
            assert!(read(fields).unwrap().0.wrong.is_some(), "{fields:?}");
        }
    }

    #[test]
    fn a_section_of_any_size_is_not_taken() {
        let long = "x".repeat(HEAD_BYTES_MAX);
        assert_eq!(read(&[(":status", "200"), ("x", &long)]), Err(Class::OverLong));
    }
}
