//! Mail addresses, and the recipients that rules may write to.

use lettre::{Address, message::Mailbox};

/// Longest address with a display name. RFC 5321 (4.5.3.1.3) allows 254 bytes for the address.
const BYTES_MAX: usize = 998;

/// Why a text is not an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no address such as \"shop@example.org\" or \"Shop <shop@example.org>\": {reason}")]
pub struct AddressError {
    /// The text, or its beginning.
    pub text: String,
    /// The rule that it violates.
    pub reason: String,
}

/// An address, optionally with a display name.
pub(super) fn mailbox(text: &str) -> Result<Mailbox, AddressError> {
    let wrong = |reason: &str| AddressError {
        text: text.chars().take(100).collect(),
        reason: reason.to_owned(),
    };
    if text.len() > BYTES_MAX {
        return Err(wrong(&format!("it is longer than {BYTES_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(wrong("it has a control character"));
    }
    let mailbox: Mailbox = text
        .trim()
        .parse()
        .map_err(|error: lettre::address::AddressError| wrong(&error.to_string()))?;
    let address: &str = mailbox.email.as_ref();
    // Quoted local parts may contain anything, and servers disagree on their meaning.
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>()[],;:\\".contains(&byte);
    if !address.bytes().all(is_plain) {
        return Err(wrong(
            "an address has letters, digits and signs of ASCII, none of them quoted",
        ));
    }
    Ok(mailbox)
}

/// The permitted recipients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recipients(Vec<Pattern>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Pattern {
    Everybody,
    /// Any address in this domain.
    Domain(String),
    One(String),
}

impl Recipients {
    /// Permits another recipient: an address, `*@example.org` or `*`.
    pub fn allow(&mut self, pattern: &str) -> Result<(), AddressError> {
        let wrong = |reason: &str| AddressError {
            text: pattern.chars().take(100).collect(),
            reason: reason.to_owned(),
        };
        let pattern = match pattern.strip_prefix('*') {
            Some("") => Pattern::Everybody,
            Some(rest) => {
                let domain = rest
                    .strip_prefix('@')
                    .ok_or_else(|| wrong("nothing but `@` follows `*`"))?;
                // An address with it is one if it is a domain.
                mailbox(&format!("any@{domain}"))?;
                Pattern::Domain(domain.to_ascii_lowercase())
            }
            None => Pattern::One(AsRef::<str>::as_ref(&mailbox(pattern)?.email).to_ascii_lowercase()),
        };
        self.0.push(pattern);
        Ok(())
    }

    pub(super) fn has(&self, address: &Address) -> bool {
        let whole: &str = address.as_ref();
        self.0.iter().any(|pattern| match pattern {
            Pattern::Everybody => true,
            Pattern::Domain(domain) => address.domain().eq_ignore_ascii_case(domain),
            Pattern::One(one) => whole.eq_ignore_ascii_case(one),
        })
    }

    /// Formats them as in the configuration.
    pub fn texts(&self) -> Vec<String> {
        let text = |pattern: &Pattern| match pattern {
            Pattern::Everybody => "*".to_owned(),
            Pattern::Domain(domain) => format!("*@{domain}"),
            Pattern::One(one) => one.clone(),
        };
        self.0.iter().map(text).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn addresses_are_plain_and_on_one_line() {
        for (text, address) in [
            ("a@example.org", "a@example.org"),
            (" Größe <a+b@example.org> ", "a+b@example.org"),
            ("\"Shop, the\" <a.b@x.example.org>", "a.b@x.example.org"),
        ] {
            assert_eq!(AsRef::<str>::as_ref(&mailbox(text).unwrap().email), address);
        }
        for (text, told) in [
            ("a@example.org\r\nBcc: b@example.org", "control character"),
            ("A\n <a@example.org>", "control character"),
            ("a@example.org> SIZE=1 <b@example.org", ""),
            ("\"a b\"@example.org", "Invalid email user"),
            ("\"<b@c>\"@example.org", ""),
            ("ä@example.org", "ASCII"),
            ("a", ""),
            ("", ""),
            (&"a".repeat(999), "longer than 998 bytes"),
        ] {
            let error = mailbox(text).unwrap_err().to_string();
            assert!(error.contains(told) && error.len() < 400, "{text:?}: {error}");
        }
    }

    #[test]
    fn recipients_are_those_of_an_address_or_a_domain() {
        let mut some = Recipients::default();
        some.allow("*@example.org").unwrap();
        some.allow("Boss@Other.example").unwrap();
        for (address, is_one) in [
            ("a@EXAMPLE.org", true),
            ("boss@other.EXAMPLE", true),
            ("a@other.example", false),
            ("a@x.example.org", false),
            ("example.org@evil.example", false),
        ] {
            assert_eq!(some.has(&address.parse().unwrap()), is_one, "{address}");
        }
        assert_eq!(some.texts(), ["*@example.org", "boss@other.example"]);
        assert!(!Recipients::default().has(&"a@b.example".parse().unwrap()));
        for wrong in ["*example.org", "*@", "a@*", "**", "*@a b"] {
            assert!(some.allow(wrong).is_err(), "{wrong}");
        }
    }
}
