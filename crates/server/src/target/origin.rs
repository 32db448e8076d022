//! Cross-origin checks: which websites may have their visitors' browsers change data.

use crate::{failure::Refusal, front::Head};

/// The allowed origins of `route.origins`, such as `https://example.org`; `*` allows any.
#[derive(Clone, Debug)]
pub(crate) struct Origins(Vec<String>);

impl Origins {
    pub(crate) fn new(origins: &[String]) -> Self {
        Self(origins.to_vec())
    }

    /// Refuses requests from pages of other sites, unless they only read. Clients other than browsers send neither header field.
    pub(crate) fn check(&self, head: &Head) -> Result<(), Refusal> {
        if matches!(head.method(), "GET" | "HEAD" | "OPTIONS") || Self::is_of_this_site(head) {
            return Ok(());
        }
        let origin = head.field("origin").unwrap_or_default();
        let is_allowed = |allowed: &String| allowed == "*" || allowed.as_bytes().eq_ignore_ascii_case(origin);
        if self.0.iter().any(is_allowed) {
            return Ok(());
        }
        Err(Refusal::OtherOrigin {
            origin: String::from_utf8_lossy(origin).into_owned(),
        })
    }

    /// By what the browser reports about the request (Fetch Metadata), or else about the page (RFC 6454).
    fn is_of_this_site(head: &Head) -> bool {
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
