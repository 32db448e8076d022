//! `[policy.NAME]`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::build::Context;
use crate::fields::Fields;
use crate::headers::refuse_header_names;
use crate::is_token;
use crate::key::{Default, GIB, KIB, Key, Kind, MIB, TIB, YEAR};
use crate::network::Network;
use crate::print::Table;
use crate::route::Cors;
use crate::section::{Entry, Setting, section};
use crate::setting::{Text, parsed, print_map};
use crate::units::{parse_duration, print_duration, print_size};

/// Longest window of a rate limit.
const WINDOW_MAX: Duration = Duration::from_hours(24);
/// Most requests in the window of a rate limit.
const REQUESTS_MAX: u32 = 1_000_000_000;

section! {
    /// Rules for all routes that name it in `policy`, whatever answers them. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[rules(Policy::rules)]
    pub struct Policy {
        /// Addresses of the clients that are admitted, such as `10.0.0.0/8`. Without the key, all are.
        allow: Vec<Network> = "" => "403",
        /// Addresses of clients that are refused, even if `allow` has them.
        deny: Vec<Network> = "" => "403",
        /// How many requests a client may send in a time, such as `100/1m`: in a minute 100, at once or spread over it; each comes back after
        /// a hundredth of the minute. A client is an address (of IPv6 the first 64 bits), or whoever sends the same value of a header field:
        /// `1000/1h by x-api-key`. A request has to keep all limits; one that is refused counts for none.
        rate_limits: Vec<RateLimit> = "" => "429 with `Retry-After`",
        /// Clients that are told apart for each rate limit, 16 to 32 bytes each. If there are more, those are forgotten whose requests have come
        /// back, then those with the fewest outstanding.
        rate_clients_max: usize as integer(1_000, 100_000_000) = "100000",
        /// As the key of routes: pages of other origins whose scripts may read the responses. A route's own comes first, then that of the policy
        /// that is named last.
        cors: Option<Cors>,
        /// Header fields that every response gets.
        headers: Vec<(String, String)>,
        /// Header fields of targets that no response gets, such as `x-powered-by`.
        remove_headers: Vec<String> = "",
        /// Pages in the place of the server's own error messages, for clients that accept HTML: files of at most 1 MiB under statuses, `404` or
        /// all of a class, `5xx`. They are read when the configuration is.
        error_pages: ErrorPages,
        /// Keeps responses that say for how long they may be kept (RFC 9111), and answers later requests with them. Routes that name the policy
        /// share the cache; a reload empties it.
        cache: Option<Cache>,
    }
}

section! {
    /// The cache of a policy.
    #[check(Cache::check)]
    pub struct Cache {
        /// Memory for all responses. If there are more, those are dropped that were not asked for again.
        bytes_max: u64 as size(MIB, TIB) = "64MiB",
        /// Longest body that is kept, at most a quarter of `bytes_max`.
        response_bytes_max: u64 as size(KIB, GIB) = "1MiB",
        /// How long responses are kept that say nothing about it. With `0s` they are not.
        default_max_age: Duration as duration(0, YEAR) = "0s",
    }
}

impl Cache {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if self.response_bytes_max > self.bytes_max / 4 {
            let message = format!(
                "found {}, expected at most a quarter of `bytes_max` ({})",
                print_size(self.response_bytes_max),
                print_size(self.bytes_max)
            );
            context.note(fields.problem("response_bytes_max", message));
        }
    }
}

impl Policy {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        refuse_header_names("remove_headers", fields, context);
    }
}

/// How many requests a client may send in a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateLimit {
    /// Requests in `window`.
    pub requests: u32,
    /// 1 ms to 24 h.
    pub window: Duration,
    /// The property by which clients are told apart.
    pub by: ClientKey,
}

/// The property by which clients are told apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientKey {
    /// Their addresses.
    Address,
    /// The value of a header field, in lower case; for requests without it the address.
    Header(String),
}

/// A text that is no rate limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {0:?}, expected a number of requests and a time up to 24h, such as \"100/1m\" or \"1000/1h by x-api-key\""
)]
pub struct RateLimitError(String);

impl FromStr for RateLimit {
    type Err = RateLimitError;

    fn from_str(text: &str) -> Result<Self, RateLimitError> {
        let error = || RateLimitError(text.to_owned());
        let (quota, by) = match text.split_once(" by ") {
            Some((quota, by)) => (quota, by),
            None => (text, "address"),
        };
        let (requests, window) = quota.split_once('/').ok_or_else(error)?;
        let requests = requests.parse().ok();
        let window = parse_duration(window);
        Ok(Self {
            requests: requests
                .filter(|requests| (1..=REQUESTS_MAX).contains(requests))
                .ok_or_else(error)?,
            window: window
                .filter(|window| !window.is_zero() && *window <= WINDOW_MAX)
                .ok_or_else(error)?,
            by: match by {
                "address" => ClientKey::Address,
                name if is_token(name.as_bytes()) => ClientKey::Header(name.to_ascii_lowercase()),
                _ => return Err(error()),
            },
        })
    }
}

impl fmt::Display for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.requests, print_duration(self.window))?;
        match &self.by {
            ClientKey::Address => Ok(()),
            ClientKey::Header(name) => write!(f, " by {name}"),
        }
    }
}
parsed!("": RateLimit);

/// Files under the statuses whose responses they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ErrorPages(pub Vec<(Statuses, PathBuf)>);

/// An error status, or all of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Statuses {
    /// 400 to 599.
    One(u16),
    /// 4 or 5.
    Class(u16),
}

impl Statuses {
    /// Whether a status is one of these.
    pub fn contain(self, status: u16) -> bool {
        match self {
            Self::One(one) => one == status,
            Self::Class(class) => status / 100 == class,
        }
    }
}

impl FromStr for Statuses {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, text.parse()) {
            ("4xx", _) => Ok(Self::Class(4)),
            ("5xx", _) => Ok(Self::Class(5)),
            (_, Ok(status @ 400..=599)) => Ok(Self::One(status)),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(status) => write!(f, "{status}"),
            Self::Class(class) => write!(f, "{class}xx"),
        }
    }
}

impl Setting for ErrorPages {
    const KIND: Kind = Kind::TextMap;
    const DEFAULT: Default = Default::Is("");

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let mut pages = Vec::new();
        for (statuses, file) in entry.text_map(context)? {
            let path = context.resolve(entry.fields, &file.text);
            let message = match statuses.parse() {
                Ok(statuses) if path.is_file() => {
                    pages.push((statuses, path));
                    continue;
                }
                Ok(_) => format!("there is no file `{}`", path.display()),
                Err(()) => "expected a status from 400 to 599, or \"4xx\" or \"5xx\"".to_owned(),
            };
            let key = format!("{}.{statuses}", entry.key.name);
            context.note(entry.fields.problem_at(file.line, &key, message));
        }
        Some(Self(pages))
    }

    fn print(&self, key: &Key, out: &mut Table) {
        let pages = self.0.iter();
        let texts: Vec<_> = pages
            .map(|(statuses, file)| (statuses.to_string(), file.to_text()))
            .collect();
        print_map(texts.iter().map(|(statuses, file)| (statuses, file)), key, out);
    }
}
