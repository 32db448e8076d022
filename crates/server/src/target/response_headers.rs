//! Responses of handlers, wherever those run: their header fields in HTTP's form, and a check that the body is as long as announced.

use std::borrow::Cow;

use super::End;
use crate::{failure::Refusal, front::decimal, reply::HeaderLines};

/// Room for the fields of a typical response.
pub(super) const HEAD_BYTES: usize = 256;
/// Response fields that only the server sets, whatever a handler returns: the list in PROTOCOL.md, section 5.
pub(crate) const SERVERS_OWN: [&[u8]; 8] = [
    b"connection",
    b"transfer-encoding",
    b"keep-alive",
    b"proxy-connection",
    b"upgrade",
    b"date",
    b"server",
    b"x-request-id",
];

/// A field's name and value.
pub(super) type Field<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The error for a handler's response that cannot be sent.
pub(super) fn invalid(what: &'static str) -> End {
    Refusal::InvalidAnswer { what }.into()
}

/// A field given as text, each character of which (up to U+00FF) stands for one byte.
pub(super) fn latin1_pair(name: &str, value: &str) -> Result<Field<'static>, End> {
    let latin1 = |text: &str| -> Result<Cow<'static, [u8]>, End> {
        let bytes: Result<Vec<u8>, _> = text.chars().map(u8::try_from).collect();
        bytes
            .map(Cow::Owned)
            .map_err(|_| invalid("a header has a character that is not Latin-1"))
    };
    Ok((latin1(name)?, latin1(value)?))
}

/// Converts a response's fields, and returns the body length that they announce.
pub(super) fn answer_headers<'a>(
    media_type: Option<&str>,
    fields: impl Iterator<Item = Result<Field<'a>, End>>,
) -> Result<(HeaderLines, Option<u64>), End> {
    let mut lines = HeaderLines::of_known(HEAD_BYTES, "");
    let mut announced = None;
    if let Some(media_type) = media_type {
        lines.push_known("content-type", media_type);
    }
    for field in fields {
        let (name, value) = field?;
        match &*name {
            name if SERVERS_OWN.contains(&name) => {}
            b"content-length" => {
                let length = decimal(&value).ok_or(invalid("its content-length is not a decimal number"))?;
                if announced.replace(length).is_some_and(|before| before != length) {
                    return Err(invalid("it has two content-lengths"));
                }
            }
            // Upper case would hide a field from the arms above.
            name if name.iter().any(u8::is_ascii_uppercase) => {
                return Err(invalid("a header name is not in lower case"));
            }
            name => lines.push(name, &value).map_err(invalid)?,
        }
    }
    Ok((lines, announced))
}

/// Checks the length of a body that arrives in pieces.
#[derive(Debug, Default)]
pub(super) struct Length {
    announced: Option<u64>,
    /// Bytes seen so far.
    passed: u64,
}

impl Length {
    /// `announced` is the Content-Length of the response, if it has one.
    pub(super) fn new(announced: Option<u64>) -> Self {
        Self { announced, passed: 0 }
    }

    pub(super) fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Counts a piece; an error if the body turns out shorter or longer than announced.
    pub(super) fn pass(&mut self, bytes: usize, is_last: bool) -> Result<(), End> {
        self.passed += bytes as u64;
        match self.announced {
            Some(length) if self.passed > length || (is_last && self.passed < length) => {
                Err(invalid("its body is not as long as announced"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_names_the_fields_that_are_dropped() {
        let protocol = include_str!("../../../../protocol/PROTOCOL.md");
        let (before, _) = protocol
            .split_once(" belong to the server and are dropped.")
            .expect("it says which");
        let (_, list) = before.rsplit_once(". ").expect("a sentence before it");
        let named: Vec<&[u8]> = list.split('`').skip(1).step_by(2).map(str::as_bytes).collect();
        assert_eq!(named, SERVERS_OWN);
    }

    fn answered(pairs: &[(&str, &str)]) -> Result<(String, Option<u64>), String> {
        let pairs = pairs.iter().map(|(name, value)| latin1_pair(name, value));
        match answer_headers(Some("text/plain"), pairs) {
            Ok((lines, length)) => Ok((String::from_utf8_lossy(lines.as_bytes()).into_owned(), length)),
            Err(End::Refused(refusal)) => Err(refusal.to_string()),
            Err(End::Gone) => unreachable!("nobody is waited for"),
        }
    }

    #[test]
    fn headers_are_those_of_the_answer_but_what_belongs_to_the_server() {
        let given = [("x-a", "1"), ("date", "x"), ("content-length", "3"), ("x-b", "2")];
        let lines = "content-type: text/plain\r\nx-a: 1\r\nx-b: 2\r\n".to_owned();
        assert_eq!(answered(&given), Ok((lines, Some(3))));
    }

    #[test]
    fn what_http_cannot_say_is_refused_whoever_answers() {
        for (pairs, what) in [
            // It would hide a field that belongs to the server.
            (&[("Date", "x")][..], "a header name is not in lower case"),
            // Cut to a byte it would be another character.
            (
                &[("x-a", "\u{10a}")],
                "a header has a character that is not Latin-1",
            ),
            (
                &[("x-\u{10a}", "")],
                "a header has a character that is not Latin-1",
            ),
            (
                &[("content-length", "+3")],
                "its content-length is not a decimal number",
            ),
            (
                &[("content-length", "3"), ("content-length", "4")],
                "it has two content-lengths",
            ),
            (&[("x-a", "1\n")], "a header value has a byte that is not allowed"),
        ] {
            let text = format!("handler's answer is not valid HTTP: {what}");
            assert_eq!(answered(pairs), Err(text), "{pairs:?}");
        }
    }

    #[test]
    fn a_body_is_as_long_as_announced() {
        let mut exact = Length::new(Some(3));
        assert_eq!((exact.pass(2, false), exact.pass(1, true)), (Ok(()), Ok(())));
        assert!(Length::new(Some(3)).pass(4, false).is_err());
        assert!(Length::new(Some(3)).pass(2, true).is_err());
        assert!(Length::new(None).pass(2, true).is_ok());
    }
}
