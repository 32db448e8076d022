//! The rules of RFC 9111 for a shared cache: which requests it may answer, which responses it may store, and for how long.

use std::time::{Duration, SystemTime};

use smallvec::SmallVec;

use crate::{
    front::{Framing, Head},
    reply::HeaderLines,
    target::Request,
};

/// Statuses of responses that are stored if they say how long they are fresh. Statuses of failures are not among them, so that a request
/// that makes a handler fail spoils nothing for others.
const STORABLE: [u16; 10] = [200, 203, 204, 300, 301, 302, 307, 308, 404, 410];
/// Those of them that are stored for `default_max_age` if they say nothing (RFC 9110, 15.1), without those for requests that go astray.
const STORABLE_BY_DEFAULT: [u16; 5] = [200, 203, 204, 301, 308];
/// Longest time in a directive, in seconds (RFC 9111, 1.2.2).
const SECONDS_MAX: u64 = 1 << 31;

/// A request, as far as it matters to a cache.
#[derive(Debug)]
pub(super) struct CacheRequest {
    pub(super) method: Method,
    /// What its URI and the fields that handlers take for a part of it say: scheme, host, space, path and query, then a line for each field.
    pub(super) key: Key,
    /// Whether it may be meant for one user: who that is has been proved, or may be by `Authorization` or `Cookie`.
    pub(super) has_credentials: bool,
    /// Whether it has `If-None-Match` or `If-Modified-Since`.
    pub(super) is_conditional: bool,
    pub(super) directives: Directives,
}

pub(super) type Key = SmallVec<[u8; 192]>;

/// The treatment of a request by its method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Method {
    Get,
    Head,
    /// It is not answered from the cache, but changes nothing either: OPTIONS, TRACE, and GET with a body, a range or the like.
    Passed,
    /// If it succeeds, what is stored of its URI is dropped (RFC 9111, 4.4).
    Unsafe,
}

impl CacheRequest {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let head = request.head;
        let mut key = Key::new();
        key.push(if request.is_secure { b's' } else { b'p' });
        key.extend_from_slice(head.host_bytes());
        key.make_ascii_lowercase();
        key.push(b' ');
        key.extend_from_slice(head.path_bytes());
        if !head.query().is_empty() {
            key.push(b'?');
            key.extend_from_slice(head.query());
        }
        let mut asked = Self {
            method: match head.method() {
                _ if head.wants_websocket => Method::Passed,
                "GET" if head.framing == Framing::None => Method::Get,
                "HEAD" if head.framing == Framing::None => Method::Head,
                "GET" | "HEAD" | "OPTIONS" | "TRACE" => Method::Passed,
                _ => Method::Unsafe,
            },
            key,
            has_credentials: request.identity.get().is_some() || request.certificate.is_some(),
            is_conditional: false,
            directives: Directives::default(),
        };
        let mut is_passed = false;
        for (name, value) in head.fields() {
            match name {
                b"authorization" | b"cookie" => asked.has_credentials = true,
                b"cache-control" => asked.directives.read(value),
                b"if-none-match" | b"if-modified-since" => asked.is_conditional = true,
                // The last three ask for another method than the one that is known here.
                b"range"
                | b"if-match"
                | b"if-unmodified-since"
                | b"if-range"
                | b"x-http-method-override"
                | b"x-http-method"
                | b"x-method-override" => is_passed = true,
                // A field that is named here does not reach the handler, though `Vary` would find it.
                b"connection" => is_passed |= !is_plain_connection(value),
                name if is_part_of_uri(name, value) => {
                    asked.key.push(b'\n');
                    asked.key.extend_from_slice(name);
                    asked.key.push(b':');
                    asked.key.extend_from_slice(value);
                }
                _ => {}
            }
        }
        if is_passed && asked.method != Method::Unsafe {
            asked.method = Method::Passed;
        }
        asked
    }
}

fn is_plain_connection(options: &[u8]) -> bool {
    let mut options = options.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
    options.all(|option| {
        [&b"keep-alive"[..], b"close", b"te"]
            .iter()
            .any(|plain| plain.eq_ignore_ascii_case(option))
    })
}

/// Whether handlers may take a field for a part of the request's URI, and build links from it. The address of the client is none.
fn is_part_of_uri(name: &[u8], value: &[u8]) -> bool {
    match name {
        b"x-forwarded-host"
        | b"x-forwarded-port"
        | b"x-forwarded-proto"
        | b"x-forwarded-protocol"
        | b"x-forwarded-scheme"
        | b"x-forwarded-ssl"
        | b"x-forwarded-prefix"
        | b"x-forwarded-path"
        | b"x-forwarded-uri"
        | b"x-forwarded-server"
        | b"x-host"
        | b"x-http-host-override"
        | b"x-original-host"
        | b"x-original-uri"
        | b"x-original-url"
        | b"x-rewrite-url"
        | b"x-scheme"
        | b"x-script-name"
        | b"x-url-scheme"
        | b"front-end-https" => true,
        b"forwarded" => {
            let value = value.to_ascii_lowercase();
            memchr::memmem::find(&value, b"host").is_some()
                || memchr::memmem::find(&value, b"proto").is_some()
        }
        // Many servers read `_` as `-`, so that such a field could pass for one of these.
        name => memchr::memchr(b'_', name).is_some(),
    }
}

/// The directives of `Cache-Control`, in a request or in a response. Unknown directives are skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a directive")]
pub(crate) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    private: bool,
    public: bool,
    must_revalidate: bool,
    pub(super) max_age: Option<u64>,
    s_maxage: Option<u64>,
    pub(super) min_fresh: Option<u64>,
    stale_while_revalidate: Option<u64>,
    stale_if_error: Option<u64>,
}

impl Directives {
    /// Reads a field's value. Of times that contradict each other the shortest counts, and one that is not a number is 0
    /// (RFC 9111, 4.2.1).
    pub(crate) fn read(&mut self, value: &[u8]) {
        let put = |time: &mut Option<u64>, value: &[u8]| {
            let seconds = seconds(value);
            *time = Some(time.map_or(seconds, |known| known.min(seconds)));
        };
        for (name, value) in Elements(value) {
            match &*name.to_ascii_lowercase() {
                b"no-store" => self.no_store = true,
                b"no-cache" => self.no_cache = true,
                b"private" => self.private = true,
                b"public" => self.public = true,
                b"must-revalidate" | b"proxy-revalidate" => self.must_revalidate = true,
                b"max-age" => put(&mut self.max_age, value),
                b"s-maxage" => put(&mut self.s_maxage, value),
                b"min-fresh" => put(&mut self.min_fresh, value),
                b"stale-while-revalidate" => put(&mut self.stale_while_revalidate, value),
                b"stale-if-error" => put(&mut self.stale_if_error, value),
                _ => {}
            }
        }
    }

    /// Whether a request wants a response that the target has confirmed, or one that is fresher than the stored one.
    pub(super) fn ask_for_more(&self, age: Duration, fresh: Duration) -> bool {
        self.no_cache
            || self.max_age.is_some_and(|max| age.as_secs() > max || max == 0)
            || self.min_fresh.is_some_and(|min| fresh.as_secs() < min)
    }
}

/// The elements of a list of directives: the name, and the value without quotes; empty if there is none.
struct Elements<'l>(&'l [u8]);

impl<'l> Iterator for Elements<'l> {
    type Item = (&'l [u8], &'l [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let (mut is_quoted, mut is_escaped) = (false, false);
        let ends = |byte: &u8| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_quoted => is_escaped = true,
                b'"' => is_quoted = !is_quoted,
                b',' => return !is_quoted,
                _ => {}
            }
            false
        };
        let end = self.0.iter().position(ends).unwrap_or(self.0.len());
        let (element, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        let at = memchr::memchr(b'=', element).unwrap_or(element.len());
        let value = element.get(at + 1..).unwrap_or_default().trim_ascii();
        let unquoted = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        Some((element[..at].trim_ascii(), unquoted.unwrap_or(value)))
    }
}

fn seconds(text: &[u8]) -> u64 {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return 0;
    }
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.unwrap_or(SECONDS_MAX).min(SECONDS_MAX)
}

/// How long a response may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lifetime {
    /// Its age when it came.
    pub(super) age: Duration,
    /// From then on; 0 if it may be used only after the target has confirmed it.
    pub(super) fresh: Duration,
    /// After that, while it is being confirmed (RFC 5861, 3).
    pub(super) stale_while_revalidate: Duration,
    /// After that, when the target fails (RFC 5861, 4).
    pub(super) stale_if_error: Duration,
}

/// The fields of a response that matter to a cache.
#[derive(Debug, Default)]
struct ResponseFields<'r> {
    directives: Directives,
    age: u64,
    expires: Option<&'r [u8]>,
    /// A field that must not be stored, or that says that the response is not whole or not for every request.
    forbids: bool,
    has_validator: bool,
}

/// How long a response may be used; `None`: it is not stored. `route_headers` are further fields with which clients get it.
pub(super) fn lifetime(
    asked: &CacheRequest,
    status: u16,
    headers: &HeaderLines,
    route_headers: &HeaderLines,
    default_max_age: Duration,
    now: SystemTime,
) -> Option<Lifetime> {
    let mut fields = ResponseFields::default();
    for (name, value) in headers.fields().chain(route_headers.fields()) {
        match name {
            b"cache-control" => fields.directives.read(value),
            b"age" => fields.age = fields.age.max(seconds(value)),
            b"expires" => fields.expires = Some(fields.expires.map_or(value, |_| b"")),
            b"set-cookie" | b"content-range" | b"www-authenticate" => fields.forbids = true,
            b"vary" => fields.forbids |= memchr::memchr(b'*', value).is_some(),
            b"etag" | b"last-modified" => fields.has_validator = true,
            _ => {}
        }
    }
    let says = &fields.directives;
    if asked.method != Method::Get || asked.directives.no_store || !STORABLE.contains(&status) {
        return None;
    }
    if fields.forbids || says.no_store || says.private {
        return None;
    }
    // RFC 9111, 3.5, and the same for cookies.
    if asked.has_credentials && !(says.public || says.must_revalidate || says.s_maxage.is_some()) {
        return None;
    }
    let expires = |text: &[u8]| {
        let time = std::str::from_utf8(text)
            .ok()
            .and_then(|text| httpdate::parse_http_date(text).ok());
        time.and_then(|time| time.duration_since(now).ok())
            .unwrap_or_default()
    };
    let explicit = says.s_maxage.or(says.max_age).map(Duration::from_secs);
    let said = explicit.or_else(|| fields.expires.map(expires));
    let by_default = STORABLE_BY_DEFAULT.contains(&status) && !asked.has_credentials && !says.no_cache;
    let lifetime = match said {
        Some(lifetime) => lifetime,
        None if says.no_cache => Duration::ZERO,
        None if by_default && !default_max_age.is_zero() => default_max_age,
        None => return None,
    };
    let age = Duration::from_secs(fields.age);
    let fresh = if says.no_cache {
        Duration::ZERO
    } else {
        lifetime.saturating_sub(age).min(Duration::from_secs(SECONDS_MAX))
    };
    // RFC 9111, 5.2.2.10: `s-maxage` implies `proxy-revalidate`.
    let may_be_stale = !says.must_revalidate && !says.no_cache && says.s_maxage.is_none();
    let stale =
        |seconds: Option<u64>| Duration::from_secs(seconds.filter(|_| may_be_stale).unwrap_or_default());
    let lifetime = Lifetime {
        age,
        fresh,
        stale_while_revalidate: stale(says.stale_while_revalidate),
        stale_if_error: stale(says.stale_if_error),
    };
    let is_useful = !fresh.is_zero() || fields.has_validator || !lifetime.stale_if_error.is_zero();
    is_useful.then_some(lifetime)
}

/// The request fields that a response depends on (`Vary`), in lower case, with their values in this request.
pub(super) fn selecting_fields<'r>(
    headers: impl Iterator<Item = (&'r [u8], &'r [u8])>,
    head: &Head,
) -> Vec<(String, Option<Vec<u8>>)> {
    let lists = headers.filter(|(name, _)| *name == b"vary");
    let names = lists.flat_map(|(_, list)| list.split(|&byte| byte == b','));
    let mut fields = Vec::new();
    for name in names {
        let name = String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase();
        if !name.is_empty() && !fields.iter().any(|(known, _)| *known == name) {
            let value = head.list(&name).map(|value| normalized(&value));
            fields.push((name, value));
        }
    }
    fields
}

/// Whether a request has the same values of these fields.
pub(super) fn selects(fields: &[(String, Option<Vec<u8>>)], head: &Head) -> bool {
    fields.iter().all(|(name, value)| match (head.list(name), value) {
        (None, None) => true,
        (Some(found), Some(value)) => *found == **value || normalized(&found) == *value,
        _ => false,
    })
}

/// A list without spaces around its commas.
fn normalized(list: &[u8]) -> Vec<u8> {
    let elements: Vec<&[u8]> = list.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
    elements.join(&b","[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(has_credentials: bool) -> CacheRequest {
        CacheRequest {
            method: Method::Get,
            key: Key::new(),
            has_credentials,
            is_conditional: false,
            directives: Directives::default(),
        }
    }

    fn judge(
        status: u16,
        fields: &[(&str, &str)],
        has_credentials: bool,
        default_s: u64,
    ) -> Option<Lifetime> {
        let mut headers = HeaderLines::default();
        for (name, value) in fields {
            headers.push_known(name, value);
        }
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let default = Duration::from_secs(default_s);
        let asked = asked(has_credentials);
        lifetime(&asked, status, &headers, &HeaderLines::default(), default, now)
    }

    #[test]
    fn a_response_is_stored_as_long_as_it_says() {
        for (fields, fresh_s) in [
            (&[("cache-control", "max-age=60")][..], Some(60)),
            (
                &[("cache-control", "MAX-AGE=\"60\" , x=\"a, no-store\"")],
                Some(60),
            ),
            (&[("cache-control", "max-age=60, s-maxage=5")], Some(5)),
            (
                &[("cache-control", "max-age=60"), ("cache-control", "max-age=5")],
                Some(5),
            ),
            (&[("cache-control", "max-age=60"), ("age", "50")], Some(10)),
            (&[("cache-control", "max-age=60"), ("age", "70")], None),
            (
                &[("cache-control", "max-age=60"), ("age", "70"), ("etag", "\"a\"")],
                Some(0),
            ),
            (
                &[("cache-control", "max-age=99999999999999999999")],
                Some(SECONDS_MAX),
            ),
            (&[("cache-control", "max-age=-1")], None),
            (&[("cache-control", "max-age=1.5")], None),
            (&[("expires", "Sun, 06 Nov 1994 08:50:37 GMT")], Some(60)),
            (&[("expires", "0")], None),
            (
                &[
                    ("expires", "Sun, 06 Nov 1994 08:50:37 GMT"),
                    ("cache-control", "max-age=0"),
                ],
                None,
            ),
            (&[], None),
            (&[("etag", "\"a\"")], None),
            (&[("cache-control", "no-cache, max-age=60")], None),
            (&[("cache-control", "no-cache"), ("etag", "\"a\"")], Some(0)),
            (&[("cache-control", "no-store, max-age=60")], None),
            (&[("cache-control", "private=\"x-a\", max-age=60")], None),
            (&[("cache-control", "max-age=60"), ("set-cookie", "a=1")], None),
            (&[("cache-control", "max-age=60"), ("vary", "accept, *")], None),
            (
                &[("cache-control", "max-age=60"), ("content-range", "bytes 0-1/2")],
                None,
            ),
        ] {
            let found = judge(200, fields, false, 0).map(|lifetime| lifetime.fresh.as_secs());
            assert_eq!(found, fresh_s, "{fields:?}");
        }
    }

    #[test]
    fn only_some_statuses_are_stored_and_fewer_of_them_by_default() {
        let max_age = [("cache-control", "max-age=60")];
        for (status, says, by_default) in [
            (200, true, true),
            (301, true, true),
            (302, true, false),
            (404, true, false),
            (206, false, false),
            (304, false, false),
            (400, false, false),
            (405, false, false),
            (431, false, false),
            (500, false, false),
            (503, false, false),
        ] {
            assert_eq!(judge(status, &max_age, false, 0).is_some(), says, "{status}");
            assert_eq!(judge(status, &[], false, 60).is_some(), by_default, "{status}");
        }
        assert_eq!(judge(200, &[], false, 0), None);
        assert_eq!(judge(200, &[("cache-control", "no-cache")], false, 60), None);
    }

    #[test]
    fn what_may_be_for_one_user_is_stored_only_if_it_says_that_it_is_for_all() {
        for (directives, is_stored) in [
            ("max-age=60", false),
            ("public, max-age=60", true),
            ("s-maxage=60", true),
            ("max-age=60, must-revalidate", true),
            ("public, private, max-age=60", false),
            ("public", false),
        ] {
            let found = judge(200, &[("cache-control", directives)], true, 0);
            assert_eq!(found.is_some(), is_stored, "{directives}");
        }
        assert_eq!(judge(200, &[], true, 60), None);
    }

    #[test]
    fn a_stale_response_is_used_only_as_far_as_it_says() {
        let stale = |directives: &str| {
            let found = judge(200, &[("cache-control", directives)], false, 0).unwrap();
            (
                found.stale_while_revalidate.as_secs(),
                found.stale_if_error.as_secs(),
            )
        };
        assert_eq!(
            stale("max-age=1, stale-while-revalidate=2, stale-if-error=3"),
            (2, 3)
        );
        assert_eq!(stale("max-age=1"), (0, 0));
        assert_eq!(stale("max-age=1, stale-if-error=3, must-revalidate"), (0, 0));
        assert_eq!(stale("s-maxage=1, stale-if-error=3"), (0, 0));
    }
}
