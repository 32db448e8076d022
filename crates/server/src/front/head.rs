//! The head of an HTTP/1.1 request: parsed by `httparse`, then held to everything that RFC 9112 lets a server refuse. Anything that two
//! programs could read in two ways is refused: both length headers, repeated lengths, folded lines, bare line feeds.

use std::{borrow::Cow, mem::MaybeUninit, net::Ipv6Addr};

use forebay_auth::is_login_cookie;
use smallvec::SmallVec;

use crate::failure::Refusal;

/// Most header fields in one request.
const FIELDS_MAX: usize = 100;

/// A request's head. Its memory is reused for the next request of the connection.
#[derive(Clone, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is what one header field says")]
pub(crate) struct Head {
    bytes: Vec<u8>,
    method: Span,
    path: Span,
    query: Span,
    host: Span,
    fields: SmallVec<[(Span, Span); 16]>,
    pub(crate) framing: Framing,
    pub(crate) keep_alive: bool,
    pub(crate) expects_continue: bool,
    /// A client that asks to go on with the WebSocket protocol (RFC 6455, 4.1).
    pub(crate) wants_websocket: bool,
    /// An HTTP/1.0 request, whose response must not be chunked.
    pub(crate) is_http10: bool,
    pub(crate) version: Version,
}

/// The protocol of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Version {
    Http10,
    #[default]
    Http11,
    Http2,
}

impl Version {
    /// As it stands in logs.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }
}

/// A range of the head's bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Span {
    start: u32,
    end: u32,
}

/// How the request's body is delimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Framing {
    /// No body.
    #[default]
    None,
    /// Exactly this many bytes.
    Length(u64),
    /// Chunked transfer coding.
    Chunked,
}

/// Result of parsing the bytes received so far.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// A complete head of this many bytes.
    Whole(usize),
    /// An incomplete head.
    Partial,
}

impl Head {
    /// Parses a head of at most `bytes_max` bytes from the start of `bytes`.
    pub(crate) fn parse(&mut self, bytes: &[u8], bytes_max: usize) -> Result<Parsed, Refusal> {
        let mut fields = [const { MaybeUninit::uninit() }; FIELDS_MAX];
        let mut request = httparse::Request::new(&mut []);
        let length = match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(httparse::Status::Complete(length)) if length <= bytes_max => length,
            Ok(httparse::Status::Partial) if bytes.len() < bytes_max => return Ok(Parsed::Partial),
            Ok(_) => {
                return Err(Refusal::HeadTooLarge {
                    header_bytes_max: bytes_max,
                });
            }
            Err(httparse::Error::TooManyHeaders) => return Err(Refusal::TooManyFields { max: FIELDS_MAX }),
            Err(httparse::Error::Version) => return Err(Refusal::Version),
            Err(error) => {
                return Err(Refusal::Malformed {
                    what: describe(error),
                });
            }
        };
        if has_bare_line_feed(&bytes[..length]) {
            return Err(Refusal::Malformed {
                what: "a line ends without carriage return",
            });
        }
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..length]);
        self.fields.clear();
        let base = bytes.as_ptr() as usize;
        let span = |part: &[u8]| {
            let start = (part.as_ptr() as usize - base) as u32;
            Span {
                start,
                end: start + part.len() as u32,
            }
        };
        self.method = span(request.method.expect("a whole head has a method").as_bytes());
        let target = request.path.expect("a whole head has a target");
        let target_span = span(target.as_bytes());
        self.is_http10 = request.version == Some(0);
        self.version = if self.is_http10 {
            Version::Http10
        } else {
            Version::Http11
        };
        for field in request.headers.iter() {
            self.fields.push((span(field.name.as_bytes()), span(field.value)));
        }
        for (name, _) in &self.fields {
            self.bytes[name.start as usize..name.end as usize].make_ascii_lowercase();
        }
        self.take_target(target, target_span)?;
        self.take_fields()?;
        Ok(Parsed::Whole(length))
    }

    /// The head of an HTTP/2 request of which nothing is known.
    pub(crate) fn of_http2() -> Self {
        Self {
            version: Version::Http2,
            ..Self::default()
        }
    }

    /// Takes over the head of an HTTP/2 request, held to everything that a head of HTTP/1.1 is: it is written as one, and parsed. Without a length,
    /// a body is [`Framing::Chunked`].
    pub(crate) fn take_http2(
        &mut self,
        request: &http::request::Parts,
        has_body: bool,
        bytes_max: usize,
    ) -> Result<(), Refusal> {
        if request.method == http::Method::CONNECT {
            return Err(Refusal::Malformed {
                what: "CONNECT is for proxies",
            });
        }
        let mut text = Vec::with_capacity(256);
        text.extend_from_slice(request.method.as_str().as_bytes());
        text.push(b' ');
        let target = request
            .uri
            .path_and_query()
            .map_or("/", http::uri::PathAndQuery::as_str);
        text.extend_from_slice(target.as_bytes());
        text.extend_from_slice(b" HTTP/1.1\r\n");
        let mut put = |name: &str, value: &[u8]| {
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(b": ");
            text.extend_from_slice(value);
            text.extend_from_slice(b"\r\n");
        };
        // RFC 9113, 8.3.1: the authority stands for Host.
        if let Some(authority) = request.uri.authority() {
            put("host", authority.as_str().as_bytes());
        }
        for (name, value) in &request.headers {
            match name.as_str() {
                "host" if request.uri.authority().is_some() => {}
                // Several of them are one (RFC 9113, 8.2.3).
                "cookie" => {}
                name => put(name, value.as_bytes()),
            }
        }
        let cookies: Vec<&[u8]> = request
            .headers
            .get_all("cookie")
            .iter()
            .map(http::HeaderValue::as_bytes)
            .collect();
        if !cookies.is_empty() {
            put("cookie", &cookies.join(&b"; "[..]));
        }
        if has_body && !request.headers.contains_key("content-length") {
            put("transfer-encoding", b"chunked");
        }
        text.extend_from_slice(b"\r\n");
        match self.parse(&text, bytes_max)? {
            Parsed::Whole(length) if length == text.len() => {}
            Parsed::Whole(_) | Parsed::Partial => {
                return Err(Refusal::Malformed {
                    what: "the head is not one",
                });
            }
        }
        self.version = Version::Http2;
        self.expects_continue = false;
        Ok(())
    }

    /// The protocol that the client wants to go over to (RFC 9110, 7.8), of a request without a body. HTTP/2 is none: a server behind this one
    /// would then get requests that nobody has checked.
    pub(crate) fn upgrade(&self) -> Option<&[u8]> {
        let elements = |text| <[u8]>::split(text, |byte| *byte == b',').map(<[u8]>::trim_ascii);
        let mut connection = self.fields().filter(|(name, _)| *name == b"connection");
        let asks =
            connection.any(|(_, text)| elements(text).any(|option| option.eq_ignore_ascii_case(b"upgrade")));
        let has_body = self.framing != Framing::None;
        let protocols = self
            .field("upgrade")
            .filter(|_| asks && !has_body && self.version == Version::Http11)?;
        let is_http2 = |name: &[u8]| name.len() >= 2 && name[..2].eq_ignore_ascii_case(b"h2");
        (!elements(protocols).any(is_http2)).then_some(protocols)
    }

    /// Splits origin-form, absolute-form and asterisk-form (RFC 9112, 3.2). Only an authority in the target overrides Host.
    fn take_target(&mut self, target: &str, span: Span) -> Result<(), Refusal> {
        self.host = Span::default();
        let mut start = span.start;
        if target != "*" && !target.starts_with('/') {
            let scheme = ["http://", "https://"]
                .into_iter()
                .find(|scheme| {
                    target
                        .get(..scheme.len())
                        .is_some_and(|t| t.eq_ignore_ascii_case(scheme))
                })
                .ok_or(Refusal::Malformed {
                    what: "the request target is neither a path nor an http URL",
                })?;
            let authority = &target[scheme.len()..];
            let length = authority.find(['/', '?', '#']).unwrap_or(authority.len());
            let name = &authority.as_bytes()[..length];
            if name.is_empty() || !is_host(name) {
                return Err(Refusal::Malformed {
                    what: "the request target names no host",
                });
            }
            self.host = Span {
                start: span.start + scheme.len() as u32,
                end: span.start + (scheme.len() + length) as u32,
            };
            start = self.host.end;
        }
        let rest = &self.bytes[start as usize..span.end as usize];
        if rest.contains(&b'#') {
            return Err(Refusal::Malformed {
                what: "the request target has a fragment",
            });
        }
        match memchr::memchr(b'?', rest) {
            Some(at) => {
                self.path = Span {
                    start,
                    end: start + at as u32,
                };
                self.query = Span {
                    start: start + at as u32 + 1,
                    end: span.end,
                };
            }
            None => {
                self.path = Span { start, end: span.end };
                self.query = Span {
                    start: span.end,
                    end: span.end,
                };
            }
        }
        Ok(())
    }

    /// Reads the fields that control the connection and the body's framing.
    fn take_fields(&mut self) -> Result<(), Refusal> {
        let malformed = |what| Refusal::Malformed { what };
        let (mut length, mut chunked, mut hosts) = (None, false, 0);
        let (mut close, mut keep_alive, mut upgrade, mut websocket) = (false, false, false, false);
        self.expects_continue = false;
        let mut host = None;
        for &(name, value) in &self.fields {
            let (name, text) = (self.slice(name), self.slice(value));
            match name {
                b"content-length" => {
                    if length.is_some() {
                        return Err(malformed("content-length is given twice"));
                    }
                    length = Some(decimal(text).ok_or(malformed("content-length is not a decimal number"))?);
                }
                b"transfer-encoding" => {
                    if chunked || !text.eq_ignore_ascii_case(b"chunked") {
                        return Err(Refusal::TransferCoding);
                    }
                    chunked = true;
                }
                b"host" => {
                    hosts += 1;
                    host = Some(value);
                    if !is_host(text) {
                        return Err(malformed("host is not a host name"));
                    }
                }
                b"connection" => {
                    for option in text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                        close |= option.eq_ignore_ascii_case(b"close");
                        keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                        upgrade |= option.eq_ignore_ascii_case(b"upgrade");
                    }
                }
                b"upgrade" => {
                    let mut protocols = text.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
                    websocket |= protocols.any(|name| name.eq_ignore_ascii_case(b"websocket"));
                }
                b"expect" => {
                    if !text.eq_ignore_ascii_case(b"100-continue") {
                        return Err(Refusal::Expectation);
                    }
                    self.expects_continue = !self.is_http10;
                }
                _ => {}
            }
        }
        if hosts > 1 || (hosts == 0 && !self.is_http10) {
            return Err(malformed("HTTP/1.1 needs exactly one host field"));
        }
        if chunked && (length.is_some() || self.is_http10) {
            return Err(malformed("the body's length is given in two ways"));
        }
        if self.host.end == 0 {
            self.host = host.unwrap_or_default();
        }
        self.framing = match (chunked, length) {
            (true, _) => Framing::Chunked,
            (false, None | Some(0)) => Framing::None,
            (false, Some(length)) => Framing::Length(length),
        };
        self.keep_alive = !close && (keep_alive || !self.is_http10);
        // Without the option, the field is one of another connection (RFC 9110, 7.8).
        self.wants_websocket = websocket && upgrade && !self.is_http10;
        Ok(())
    }

    fn slice(&self, span: Span) -> &[u8] {
        &self.bytes[span.start as usize..span.end as usize]
    }

    fn text(&self, span: Span) -> &str {
        // The parser has checked that methods, targets and hosts are ASCII or UTF-8.
        std::str::from_utf8(self.slice(span)).unwrap_or_default()
    }

    /// The method, as received.
    pub(crate) fn method(&self) -> &str {
        match self.slice(self.method) {
            b"GET" => "GET",
            b"POST" => "POST",
            b"HEAD" => "HEAD",
            _ => self.text(self.method),
        }
    }

    /// The path, percent-encoded as received; `/` when the target has none.
    pub(crate) fn path(&self) -> &str {
        match self.text(self.path) {
            "" => "/",
            path => path,
        }
    }

    /// [`Head::path`] as bytes, which skips the UTF-8 check.
    pub(crate) fn path_bytes(&self) -> &[u8] {
        match self.slice(self.path) {
            b"" => b"/",
            path => path,
        }
    }

    /// The query without `?`, as received.
    pub(crate) fn query(&self) -> &[u8] {
        self.slice(self.query)
    }

    /// The authority of the target or the Host field; may be empty.
    pub(crate) fn host(&self) -> &str {
        self.text(self.host)
    }

    /// [`Head::host`] as bytes, which skips the UTF-8 check.
    pub(crate) fn host_bytes(&self) -> &[u8] {
        self.slice(self.host)
    }

    /// All fields in order, names in lower case.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.fields
            .iter()
            .map(|&(name, value)| (self.slice(name), self.slice(value)))
    }

    /// The first value of a field; `name` is in lower case.
    pub(crate) fn field(&self, name: &str) -> Option<&[u8]> {
        self.fields()
            .find(|(found, _)| *found == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// Whether the client is a browser that wants a page.
    pub(crate) fn accepts_html(&self) -> bool {
        let accept = self.field("accept").unwrap_or_default();
        memchr::memmem::find(accept, b"text/html").is_some()
    }

    /// All values of a list field, joined into one list (RFC 9110, 5.3).
    pub(crate) fn list(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let mut lines = self.fields().filter(|(found, _)| *found == name.as_bytes());
        let (_, first) = lines.next()?;
        let mut all = Cow::Borrowed(first);
        for (_, line) in lines {
            let all = all.to_mut();
            all.extend_from_slice(b", ");
            all.extend_from_slice(line);
        }
        Some(all)
    }

    /// The names and values of cookies, in order (RFC 6265, 4.2).
    pub(crate) fn cookies(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.fields().filter(|(name, _)| *name == b"cookie");
        let cookies = fields.flat_map(|(_, cookies)| cookies.split(|&byte| byte == b';'));
        cookies.filter_map(|cookie| {
            let at = memchr::memchr(b'=', cookie)?;
            Some((cookie[..at].trim_ascii(), cookie[at + 1..].trim_ascii()))
        })
    }

    /// The first value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&[u8]> {
        self.cookies()
            .find(|(found, _)| *found == name.as_bytes())
            .map(|(_, value)| value)
    }

    /// The same head without the cookies of logins; `None` if it has none.
    pub(crate) fn without_login_cookies(&self) -> Option<Self> {
        if !self.cookies().any(|(name, _)| is_login_cookie(name)) {
            return None;
        }
        let others = self.cookies().filter(|(name, _)| !is_login_cookie(name));
        let others: Vec<_> = others.map(|(name, value)| [name, b"=", value].concat()).collect();
        let mut head = self.clone();
        head.fields.retain(|(name, _)| self.slice(*name) != b"cookie");
        if !others.is_empty() {
            let field = (head.put(b"cookie"), head.put(&others.join(&b"; "[..])));
            head.fields.push(field);
        }
        Some(head)
    }

    /// The same head with these fields, whose names are in lower case, in the place of `If-None-Match` and `If-Modified-Since`.
    pub(crate) fn with_conditions(&self, conditions: &[(&str, &[u8])]) -> Self {
        let mut head = self.clone();
        head.fields
            .retain(|(name, _)| !matches!(self.slice(*name), b"if-none-match" | b"if-modified-since"));
        for (name, value) in conditions {
            let field = (head.put(name.as_bytes()), head.put(value));
            head.fields.push(field);
        }
        head
    }

    /// The same head with these fields, whose names are in lower case, in the place of the client's; without a value only the client's are
    /// removed. What programs may take for such a field is removed, too (`_` for `-`), and a client cannot have a new one dropped by naming it
    /// in `Connection`.
    pub(crate) fn with_fields(&self, fields: &[(String, Option<String>)]) -> Self {
        let is_changed = |name: &[u8]| fields.iter().any(|(changed, _)| is_same_name(name, changed));
        let mut head = self.clone();
        head.fields.retain(|(name, _)| !is_changed(self.slice(*name)));
        for at in 0..head.fields.len() {
            let (name, options) = head.fields[at];
            let options = self
                .slice(options)
                .split(|&byte| byte == b',')
                .map(<[u8]>::trim_ascii);
            if self.slice(name) == b"connection" && options.clone().any(is_changed) {
                let kept: Vec<&[u8]> = options.filter(|option| !is_changed(option)).collect();
                head.fields[at].1 = head.put(&kept.join(&b", "[..]));
            }
        }
        for (name, value) in fields {
            if let Some(value) = value {
                let field = (head.put(name.as_bytes()), head.put(value.as_bytes()));
                head.fields.push(field);
            }
        }
        head
    }

    /// The same request for another path and query.
    pub(crate) fn with_target(&self, path: &str, query: &str) -> Self {
        let mut head = self.clone();
        head.path = head.put(path.as_bytes());
        head.query = head.put(query.as_bytes());
        head
    }

    fn put(&mut self, text: &[u8]) -> Span {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text);
        let end = self.bytes.len() as u32;
        Span { start, end }
    }

    /// Releases memory that an unusually large head took.
    pub(crate) fn shrink(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(bytes_max);
        self.fields.clear();
    }
}

/// Whether a field has this name, which is in lower case and has no `_`, to programs that read `_` as `-`.
fn is_same_name(found: &[u8], name: &str) -> bool {
    let as_read = |byte: &u8| {
        if *byte == b'_' {
            b'-'
        } else {
            byte.to_ascii_lowercase()
        }
    };
    found.iter().map(as_read).eq(name.bytes())
}

fn describe(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a header name has a byte that is not allowed",
        httparse::Error::HeaderValue => "a header value has a byte that is not allowed",
        httparse::Error::NewLine => "a line ends without carriage return and line feed",
        httparse::Error::Token => "the request line has a byte that is not allowed",
        _ => "the request line is not one",
    }
}

fn has_bare_line_feed(head: &[u8]) -> bool {
    memchr::memchr_iter(b'\n', head).any(|at| at == 0 || head[at - 1] != b'\r')
}

/// Digits only, as RFC 9110, 8.6 demands: no sign, no list.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Whether a text is `uri-host [ ":" port ]` (RFC 3986, 3.2.2 and 3.2.3). An empty host is allowed.
fn is_host(text: &[u8]) -> bool {
    let (host, port) = match memchr::memchr(b']', text) {
        Some(end) => {
            let (address, rest) = (&text[..end], &text[end + 1..]);
            let address = address.strip_prefix(b"[").unwrap_or_default();
            let address = std::str::from_utf8(address).unwrap_or_default();
            if address.parse::<Ipv6Addr>().is_err() {
                return false;
            }
            (&b""[..], rest)
        }
        None => text.split_at(memchr::memchr(b':', text).unwrap_or(text.len())),
    };
    is_name(host) && (port.is_empty() || is_port(&port[1..]) && port[0] == b':')
}

/// Whether a text is a `reg-name` whose percent-encoded bytes are two hexadecimal digits each.
fn is_name(mut text: &[u8]) -> bool {
    while let [first, rest @ ..] = text {
        text = match (first, rest) {
            (b'%', [high, low, rest @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => rest,
            (byte, rest) if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(byte) => rest,
            _ => return false,
        };
    }
    true
}

/// RFC 3986 allows an empty port.
fn is_port(text: &[u8]) -> bool {
    text.is_empty() || decimal(text).is_some_and(|port| u16::try_from(port).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<(Parsed, Head), Refusal> {
        let mut head = Head::default();
        head.parse(bytes, 8192).map(|parsed| (parsed, head))
    }

    fn refused(bytes: &[u8]) -> String {
        parse(bytes).map(|(parsed, _)| parsed).unwrap_err().to_string()
    }

    #[test]
    fn a_head_is_split_into_its_parts() {
        let bytes = b"GET /a%20b?x=1&y HTTP/1.1\r\nHost: Example.com:80\r\nX-A: 1\r\nx-a: 2\r\n\r\nrest";
        let (parsed, head) = parse(bytes).unwrap();
        assert_eq!(parsed, Parsed::Whole(bytes.len() - 4));
        assert_eq!(
            (head.method(), head.path(), head.query()),
            ("GET", "/a%20b", &b"x=1&y"[..])
        );
        assert_eq!(head.host(), "Example.com:80");
        let fields: Vec<_> = head.fields().collect();
        assert_eq!(fields[1..], [(&b"x-a"[..], &b"1"[..]), (b"x-a", b"2")]);
        assert!(head.keep_alive);
        assert_eq!(head.framing, Framing::None);
    }

    #[test]
    fn fields_that_are_set_replace_whatever_may_pass_for_them_and_cannot_be_dropped() {
        let head =
            b"GET / HTTP/1.1\r\nHost: a\r\nX-Tenant: 1\r\nx_tenant: 2\r\nX-Tenants: 3\r\nCookie: b\r\n\
            Connection: close, X-TENANT ,x_tenant\r\n\r\n";
        let (_, head) = parse(head).unwrap();
        let fields = [("x-tenant", Some("own")), ("cookie", None)];
        let changed =
            head.with_fields(&fields.map(|(name, value)| (name.to_owned(), value.map(str::to_owned))));
        let found: Vec<_> = changed.fields().collect();
        let expected: [(&[u8], &[u8]); 4] = [
            (b"host", b"a"),
            (b"x-tenants", b"3"),
            (b"connection", b"close"),
            (b"x-tenant", b"own"),
        ];
        assert_eq!(found, expected);
        assert_eq!((changed.host(), changed.keep_alive), ("a", false));
    }

    #[test]
    fn an_absolute_target_overrides_the_host() {
        let (_, head) = parse(b"GET http://a.example/p?q HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(
            (head.host(), head.path(), head.query()),
            ("a.example", "/p", &b"q"[..])
        );
        let (_, head) = parse(b"GET http://a.example?q HTTP/1.1\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(
            (head.host(), head.path(), head.query()),
            ("a.example", "/", &b"q"[..])
        );
    }

    #[test]
    fn an_absolute_target_names_a_host() {
        for target in ["http:///p", "http://", "http://me@a.example/", "http://a\u{e9}/"] {
            assert_eq!(
                refused(format!("GET {target} HTTP/1.1\r\nHost: b\r\n\r\n").as_bytes()),
                "malformed request: the request target names no host",
                "{target}"
            );
        }
    }

    #[test]
    fn a_host_is_a_name_or_an_address_and_perhaps_a_port() {
        for host in [
            "a",
            "a.b:80",
            "a:",
            "",
            "127.0.0.1:65535",
            "[::1]",
            "[::ffff:1.2.3.4]:1",
            "a%c3%a9",
            "a_b",
            ":80",
        ] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "a:80:90", "a:b", "a:65536", "a:-1", "a:+1", "[::1", "::1", "[::1]a", "[::1]:x", "[a]", "[]",
            "a[::1]", "a]", "a b", "a%", "a%zz", "a/b", "a@b", "]", "]a", "]]", "a:80:", "[::1]]", "[[::1]",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let with = |fields: &str| format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        for (fields, what) in [
            (
                "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
                "malformed request: the body's length is given in two ways",
            ),
            (
                "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n",
                "malformed request: the body's length is given in two ways",
            ),
            (
                "Content-Length: 3\r\nContent-Length: 3\r\n",
                "malformed request: content-length is given twice",
            ),
            (
                "Content-Length: 3, 3\r\n",
                "malformed request: content-length is not a decimal number",
            ),
            (
                "Content-Length: +3\r\n",
                "malformed request: content-length is not a decimal number",
            ),
            (
                "Transfer-Encoding: gzip, chunked\r\n",
                "only the transfer coding `chunked` is understood",
            ),
            (
                "X: a\r\n b\r\n",
                "malformed request: a header name has a byte that is not allowed",
            ),
            (
                "X : a\r\n",
                "malformed request: a header name has a byte that is not allowed",
            ),
            (
                "X: a\nY: b\r\n",
                "malformed request: a line ends without carriage return",
            ),
            (
                "Host: b\r\n",
                "malformed request: HTTP/1.1 needs exactly one host field",
            ),
            (
                "Expect: tea\r\n",
                "only the expectation `100-continue` is understood",
            ),
        ] {
            assert_eq!(refused(with(fields).as_bytes()), what, "{fields:?}");
        }
        assert_eq!(
            refused(b"GET / HTTP/1.1\r\n\r\n"),
            "malformed request: HTTP/1.1 needs exactly one host field"
        );
        assert_eq!(
            refused(b"GET / HTTP/2.0\r\nHost: a\r\n\r\n"),
            "only HTTP/1.0 and HTTP/1.1 are understood"
        );
        assert_eq!(
            refused(b"GET /#a HTTP/1.1\r\nHost: a\r\n\r\n"),
            "malformed request: the request target has a fragment"
        );
    }

    #[test]
    fn a_head_over_its_limit_is_refused_whole_or_not() {
        let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(9000));
        let message = "header section is too large (header_bytes_max 8192)";
        assert_eq!(refused(long.as_bytes()), message);
        assert_eq!(refused(&long.as_bytes()[..8192]), message);
        assert_eq!(parse(&long.as_bytes()[..8191]).unwrap().0, Parsed::Partial);
        let fields = "a: b\r\n".repeat(101);
        let many = format!("GET / HTTP/1.1\r\n{fields}\r\n");
        assert_eq!(refused(many.as_bytes()), "more than 100 header fields");
    }

    #[test]
    fn cookies_of_logins_are_taken_out_and_no_others() {
        let cookies = |fields: &str| {
            let (_, head) = parse(format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).unwrap();
            let head = head.without_login_cookies()?;
            let lines = head.fields().filter(|(name, _)| *name == b"cookie");
            Some(
                lines
                    .map(|(_, value)| String::from_utf8(value.to_vec()).unwrap())
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            cookies("Cookie: a=1; forebay-client=2; xforebay.a=3; b=__Host-forebay.a\r\n"),
            None
        );
        assert_eq!(cookies("Cookie: forebay.a=1\r\n"), Some(vec![]));
        let both =
            cookies("Cookie: a=1;__Host-forebay.p=2 ; b=\"3=3\"\r\nCookie:  forebay.p.login0 =4;c=5\r\n");
        assert_eq!(both, Some(vec!["a=1; b=\"3=3\"; c=5".to_owned()]));
    }

    #[test]
    fn connection_options_follow_the_version() {
        let keeps = |head: &str| parse(head.as_bytes()).unwrap().1.keep_alive;
        assert!(keeps("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(!keeps(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n"
        ));
        assert!(!keeps("GET / HTTP/1.0\r\n\r\n"));
        assert!(keeps("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    }
}
