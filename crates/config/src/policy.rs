//! `[policy.NAME]`

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::build::{Config, Context};
use crate::fields::{Fields, Value};
use crate::headers::{RequestHeaders, name_problem, refuse_names, request_name_problem};
use crate::is_token;
use crate::key::{Default, GIB, KIB, Key, Kind, MIB, TIB, YEAR};
use crate::network::Network;
use crate::print::Table;
use crate::route::{Cors, Route};
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
        /// a hundredth of the minute. A client is an address (of IPv6 the first 64 bits), whoever sends the same value of a header field,
        /// `1000/1h by x-api-key`, or a user by its `[auth.NAME]` and subject, `1000/1h by user`; without that field, or where nobody has to
        /// prove who it is, the address. Limits by user are counted after authentication, the others before it. A request has to keep all limits;
        /// one that a limit refuses counts for none.
        rate_limits: Vec<RateLimit> = "" => "429 with `Retry-After`",
        /// Clients that are told apart for each rate limit, 16 to 32 bytes each. If there are more, those are forgotten whose requests have come
        /// back, then those with the fewest outstanding.
        rate_clients_max: usize as integer(1_000, 100_000_000) = "100000",
        /// As the key of routes: NAMEs of `[auth.NAME]`, in one of which clients prove who they are. If a route and its policies have different
        /// lists, only the ways that are in all of them are accepted, so a route can narrow what its policies ask for, but not replace it.
        auth: Vec<String> as names("auth") = "" => "401 with `WWW-Authenticate`",
        /// The scopes that a client must have, beside the `scopes` of the route and of its other policies.
        scopes: Vec<String> = "" => "403",
        /// As the key of routes: pages of other origins whose scripts may read the responses. A route's own comes first, then that of the policy
        /// that is named last.
        cors: Option<Cors>,
        /// Header fields that every response gets.
        headers: Vec<(String, String)>,
        /// Header fields of targets that no response gets, such as `x-powered-by`.
        remove_headers: Vec<String> = "",
        /// Header fields of requests that targets get, in the place of what the client sends under these names. Not for fields that delimit a request,
        /// are about its connection, or come from this server, such as `host` and `x-forwarded-for`.
        request_headers: RequestHeaders,
        /// Header fields of clients that targets do not get, such as `authorization`; a name stands for its spelling with `_`, too.
        remove_request_headers: Vec<String> = "",
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
        refuse_names("remove_headers", fields, context, |name| name_problem(name, &[]));
        refuse_names("remove_request_headers", fields, context, |name| {
            let Some(Value::TextMap(set)) = fields.value("request_headers") else {
                return request_name_problem(name);
            };
            let is_set = set.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
            let message = || "`request_headers` sets it, which replaces what clients send".to_owned();
            request_name_problem(name).or_else(|| is_set.then(message))
        });
    }
}

/// The authentication that a route asks for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuthRequirement {
    /// NAMEs of `[auth.NAME]`, one of which suffices; empty: everybody is answered.
    pub any_of: Vec<String>,
    /// Scopes that it needs, all of them.
    pub scopes: Vec<String>,
}

impl Config {
    /// The authentication that a route asks for, by its own keys and by those of its policies; without a route, that of requests that no route answers.
    pub fn auth_requirement(&self, route: Option<&Route>) -> AuthRequirement {
        let mut required = AuthRequirement::default();
        for (ways, scopes) in self.auth_lists(route) {
            if required.any_of.is_empty() {
                required.any_of.clone_from(ways);
            } else if !ways.is_empty() {
                required.any_of.retain(|way| ways.contains(way));
            }
            let new = scopes.iter().filter(|scope| !required.scopes.contains(scope));
            let new: Vec<_> = new.cloned().collect();
            required.scopes.extend(new);
        }
        required
    }

    /// The names of the policies that hold for a route, each once, in the order in which they apply; without a route, for requests that none
    /// answers.
    pub fn policies_of<'c>(
        &'c self,
        route: Option<&'c Route>,
    ) -> impl DoubleEndedIterator<Item = &'c String> {
        let own = route.map_or(&[][..], |route| &route.policy);
        let mut names: Vec<&String> = Vec::new();
        for name in self.server.policy.iter().chain(own) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.into_iter()
    }

    /// The keys `auth` and `scopes` of a route and of all its policies.
    fn auth_lists<'c>(
        &'c self,
        route: Option<&'c Route>,
    ) -> impl Iterator<Item = (&'c Vec<String>, &'c Vec<String>)> {
        let policies = self.policies_of(route).filter_map(|name| self.policies.get(name));
        let lists = policies.map(|policy| (&policy.auth, &policy.scopes));
        lists.chain(route.map(|route| (&route.auth, &route.scopes)))
    }

    /// Reports the policies of the server and the routes whose requirements no client can meet.
    pub(crate) fn check_auth(&self, routes: &[(Route, &Fields)], context: &mut Context<'_>) {
        let server = context.sections.find("server", "").map(|fields| (None, fields));
        let routes = routes.iter().map(|(route, fields)| (Some(route), *fields));
        for (route, fields) in server.into_iter().chain(routes) {
            let lists = self.auth_lists(route).map(|(ways, _)| ways);
            let lists: Vec<_> = lists.filter(|ways| !ways.is_empty()).collect();
            let is_in_all = |way: &String| lists.iter().all(|ways| ways.contains(way));
            let AuthRequirement { scopes, .. } = self.auth_requirement(route);
            let (key, message) = match (lists.first(), scopes.first()) {
                (Some(ways), _) if !ways.iter().any(is_in_all) => {
                    let lists: Vec<_> = lists.iter().map(|ways| ways.join(" or ")).collect();
                    let message = format!(
                        "nobody could prove who it is: only ways that are in each `auth` of a route and its policies are accepted, and none is in {}",
                        lists.join(" and in ")
                    );
                    ("auth", message)
                }
                (None, Some(scope)) => {
                    let message = format!(
                        "the scope `{scope}` is asked for, but not who the client is: `auth` of the route or of a policy names the ways to prove that"
                    );
                    ("scopes", message)
                }
                _ => continue,
            };
            let key = if fields.has(key) { key } else { "policy" };
            context.note(fields.problem(key, message));
            if route.is_none() {
                // Every route would repeat it.
                return;
            }
        }
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
    /// The authenticated user; for requests of nobody the address.
    User,
}

/// A text that is no rate limit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {0:?}, expected a number of requests and a time up to 24h, such as \"100/1m\", \"1000/1h by user\" or \"1000/1h by x-api-key\""
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
                "user" => ClientKey::User,
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
            ClientKey::User => f.write_str(" by user"),
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
