//! Content codings, and which of them a client accepts (RFC 9110, 12.5.3).

use std::cmp::Reverse;

/// A content coding that the server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Zstd,
    Brotli,
    Gzip,
}

/// Weight of a coding without `q`, in thousandths.
const WEIGHT_MAX: u16 = 1000;

impl Coding {
    pub(crate) const COUNT: usize = 3;
    /// All of them; those that cost less for the same length come first.
    pub(crate) const ALL: [Self; Self::COUNT] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Its name in header fields.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    /// How the names of files in this coding end.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Self::Zstd => "zst",
            Self::Brotli => "br",
            Self::Gzip => "gz",
        }
    }

    fn named(name: &[u8]) -> Option<Self> {
        let is = |known: Self| name.eq_ignore_ascii_case(known.name().as_bytes());
        // RFC 9110, 8.4.1.3: the old name of gzip.
        let known = Self::ALL.into_iter().find(|known| is(*known));
        known.or_else(|| name.eq_ignore_ascii_case(b"x-gzip").then_some(Self::Gzip))
    }
}

/// The value of `Accept-Encoding`, with weights in thousandths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AcceptEncoding {
    /// In the order of [`Coding::ALL`]; 0: not accepted.
    weights: [u16; Coding::COUNT],
    /// The weight of a body as it is; `None`: not listed, so it is accepted, and anything else is preferred.
    identity: Option<u16>,
}

impl AcceptEncoding {
    /// Reads a list. Elements that are malformed, or name an unknown coding, are skipped.
    pub(crate) fn parse(list: &[u8]) -> Self {
        let mut named = [None; Coding::COUNT];
        let (mut identity, mut others) = (None, None);
        for element in list.split(|&byte| byte == b',') {
            let (name, parameter) = match memchr::memchr(b';', element) {
                Some(at) => (&element[..at], Some(&element[at + 1..])),
                None => (element, None),
            };
            let Some(weight) = parameter.map_or(Some(WEIGHT_MAX), weight) else {
                continue;
            };
            match name.trim_ascii() {
                b"*" => others = Some(weight),
                name if name.eq_ignore_ascii_case(b"identity") => identity = Some(weight),
                name => {
                    if let Some(coding) = Coding::named(name) {
                        named[coding as usize] = Some(weight);
                    }
                }
            }
        }
        Self {
            weights: named.map(|weight| weight.or(others).unwrap_or(0)),
            identity: identity.or(others),
        }
    }

    /// Whether the client accepts no body without a coding.
    pub(crate) fn refuses_identity(&self) -> bool {
        self.identity == Some(0)
    }

    /// The codings that the client accepts and prefers to none, best first. Those that it likes alike stay in `order`.
    pub(crate) fn preferred(self, mut order: [Coding; Coding::COUNT]) -> impl Iterator<Item = Coding> {
        let weight = move |coding: Coding| self.weights[coding as usize];
        order.sort_by_key(|coding| Reverse(weight(*coding)));
        let least = self.identity.unwrap_or(0).max(1);
        order.into_iter().filter(move |coding| weight(*coding) >= least)
    }
}

/// The weight in `q=0.5`: 0 to 1 with at most three decimals.
fn weight(parameter: &[u8]) -> Option<u16> {
    let (b'q' | b'Q', value) = parameter.trim_ascii().split_first()? else {
        return None;
    };
    let (whole, decimals) = match value.strip_prefix(b"=")? {
        [whole] => (whole, &b""[..]),
        [whole, b'.', decimals @ ..] => (whole, decimals),
        _ => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let decimal = |at: usize| decimals.get(at).map_or(0, |digit| u16::from(digit - b'0'));
    let thousandths = decimal(0) * 100 + decimal(1) * 10 + decimal(2);
    match whole {
        b'0' => Some(thousandths),
        b'1' if thousandths == 0 => Some(WEIGHT_MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coding_is_the_best_that_the_client_accepts() {
        for (list, expected) in [
            ("", ""),
            ("gzip", "gzip"),
            ("GZIP", "gzip"),
            ("x-gzip", "gzip"),
            ("gzip, deflate, br, zstd", "zstd br gzip"),
            ("gzip,br", "br gzip"),
            ("gzip, br;q=0.9", "gzip br"),
            ("gzip;q=0.001, br;q=0.002, zstd;q=0", "br gzip"),
            ("gzip;q=1.000, br ; Q=0.5", "gzip br"),
            ("deflate", ""),
            ("*", "zstd br gzip"),
            ("*;q=0.5, gzip", "gzip zstd br"),
            ("*, zstd;q=0", "br gzip"),
            ("*;q=0", ""),
            ("gzip, *;q=0", "gzip"),
            ("identity", ""),
            ("identity, gzip", "gzip"),
            ("identity, gzip;q=0.5", ""),
            ("identity;q=0.5, gzip;q=0.5, br;q=0.4", "gzip"),
            ("identity;q=0", ""),
            ("identity;q=0, gzip;q=0.1", "gzip"),
            // A client of whose wish nothing is certain gets the body as it is.
            ("gzip;q=2", ""),
            ("gzip;q=0.1234", ""),
            ("gzip;q=1.5", ""),
            ("gzip;q", ""),
            ("gzip;q=", ""),
            ("gzip;q=-1", ""),
            ("gzip;level=9", ""),
            ("gzip;q=0.", ""),
            (";;,,=", ""),
        ] {
            let accepted = AcceptEncoding::parse(list.as_bytes());
            let names: Vec<&str> = accepted.preferred(Coding::ALL).map(Coding::name).collect();
            assert_eq!(names.join(" "), expected, "{list}");
        }
    }

    #[test]
    fn a_body_as_it_is_is_accepted_unless_the_client_says_otherwise() {
        for (list, refuses) in [
            ("", false),
            ("gzip", false),
            ("identity;q=0", true),
            ("identity;q=0.0, gzip", true),
            ("*;q=0", true),
            ("gzip, *;q=0", true),
            ("*;q=0, identity;q=0.1", false),
        ] {
            assert_eq!(
                AcceptEncoding::parse(list.as_bytes()).refuses_identity(),
                refuses,
                "{list}"
            );
        }
    }
}
