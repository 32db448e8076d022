//! Cross-origin checks: which websites may have their visitors' browsers change data, and whose scripts may read answers.

use crate::{
    config,
    failure::Refusal,
    front::Head,
    reply::{HeaderLines, is_token},
};

/// How long browsers may keep the answer to a preflight request, in seconds.
const PREFLIGHT_KEPT: &str = "600";

/// Origins such as `https://example.org`; `*` is any.
#[derive(Clone, Debug)]
pub(crate) struct Origins(Vec<String>);

impl Origins {
    /// Origins that a route names, and those whose pages may read its answers.
    pub(crate) fn new(route: &config::Route, cors: Option<&config::Cors>) -> Self {
        let readers = cors.iter().flat_map(|cors| &cors.origins);
        let readers = readers.filter(|origin| *origin != "*");
        Self(route.origins.iter().flatten().chain(readers).cloned().collect())
    }

    /// Refuses requests from pages of other sites, unless they only read: of what they read, CORS keeps them. It does not keep them from
    /// WebSockets, which `readers` may open. Clients other than browsers send neither header field.
    pub(crate) fn check(&self, head: &Head, readers: Option<&Cors>) -> Result<(), Refusal> {
        let only_reads = matches!(head.method(), "GET" | "HEAD" | "OPTIONS");
        if (only_reads && !head.wants_websocket) || Self::is_of_this_site(head) {
            return Ok(());
        }
        let origin = head.field("origin").unwrap_or_default();
        let may_read = || readers.is_some_and(|readers| readers.origins.contain(origin));
        if self.contain(origin) || (only_reads && may_read()) {
            return Ok(());
        }
        Err(Refusal::OtherOrigin {
            origin: String::from_utf8_lossy(origin).into_owned(),
        })
    }

    fn contain(&self, origin: &[u8]) -> bool {
        let is_it = |known: &String| known == "*" || known.as_bytes().eq_ignore_ascii_case(origin);
        self.0.iter().any(is_it)
    }

    /// By what the browser reports about the request (Fetch Metadata), or else about the page (RFC 6454).
    pub(crate) fn is_of_this_site(head: &Head) -> bool {
        match (head.field("sec-fetch-site"), head.field("origin")) {
            (Some(site), _) => matches!(site, b"same-origin" | b"none"),
            (None, None) => true,
            (None, Some(origin)) => {
                let authority = memchr::memmem::find(origin, b"://").map(|at| &origin[at + 3..]);
                authority.is_some_and(|authority| authority.eq_ignore_ascii_case(head.host_bytes()))
            }
        }
    }
}

/// The pages whose scripts may read the answers of a route (Fetch, 3.3: CORS protocol).
#[derive(Debug)]
pub(crate) struct Cors {
    origins: Origins,
    /// Request headers, as a list.
    headers: String,
    credentials: bool,
}

impl Cors {
    pub(crate) fn new(cors: &config::Cors) -> Self {
        Self {
            origins: Origins(cors.origins.clone()),
            headers: cors.headers.join(", "),
            credentials: cors.credentials,
        }
    }

    /// The method that a page wants to use, if this is a preflight request.
    pub(crate) fn preflight(head: &Head) -> Option<&str> {
        if head.method() != "OPTIONS" || head.field("origin").is_none() {
            return None;
        }
        let method = head.field("access-control-request-method")?;
        std::str::from_utf8(method)
            .ok()
            .filter(|method| is_token(method.as_bytes()))
    }

    /// The headers of an answer to a preflight request for this method, beside those of every answer.
    pub(crate) fn permission(&self, method: &str) -> HeaderLines {
        let mut lines = HeaderLines::default();
        lines.push_known("access-control-allow-methods", method);
        if !self.headers.is_empty() {
            lines.push_known("access-control-allow-headers", &self.headers);
        }
        lines.push_known("access-control-max-age", PREFLIGHT_KEPT);
        lines
    }

    /// The headers of every answer: whether the page that asks may read it.
    pub(crate) fn headers(&self, head: &Head) -> HeaderLines {
        let mut lines = HeaderLines::default();
        let origin = head.field("origin").filter(|origin| self.origins.contain(origin));
        match origin.and_then(|origin| std::str::from_utf8(origin).ok()) {
            _ if self.origins.0.iter().any(|known| known == "*") => {
                lines.push_known("access-control-allow-origin", "*");
                return lines;
            }
            Some(origin) => {
                lines.push_known("access-control-allow-origin", origin);
                if self.credentials {
                    lines.push_known("access-control-allow-credentials", "true");
                }
            }
            None => {}
        }
        lines.push_known("vary", "origin");
        lines
    }
}
