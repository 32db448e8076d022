//! Host rules of routes, and the host of a request.

/// The hosts a route accepts. Names are in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum HostRule {
    /// Exactly this name.
    Exact(String),
    /// Every name that ends with this suffix, which starts with a dot, after one or more labels.
    Below(String),
    /// Every name, and requests without a host.
    Any,
}

impl HostRule {
    /// `None` if it is neither a name nor `*.` followed by a name.
    pub(super) fn parse(written: Option<&str>) -> Option<Self> {
        let Some(written) = written else {
            return Some(Self::Any);
        };
        let written = written.to_ascii_lowercase();
        match written.strip_prefix('*') {
            Some(below) => {
                let name = below.strip_prefix('.')?;
                is_name(name).then(|| Self::Below(below.to_owned()))
            }
            None => (is_name(&written) || is_bracketed(&written)).then_some(Self::Exact(written)),
        }
    }

    /// Whether it accepts `host`, as returned by [`name_of`].
    pub(super) fn accepts(&self, host: &str) -> bool {
        match self {
            Self::Exact(name) => name.eq_ignore_ascii_case(host),
            Self::Below(below) => {
                host.len() > below.len()
                    && host.as_bytes()[host.len() - below.len()..].eq_ignore_ascii_case(below.as_bytes())
            }
            Self::Any => true,
        }
    }

    /// A sort key that puts more specific rules first.
    pub(super) fn rank(&self) -> (u8, std::cmp::Reverse<usize>) {
        match self {
            Self::Exact(_) => (0, std::cmp::Reverse(0)),
            Self::Below(below) => (1, std::cmp::Reverse(below.len())),
            Self::Any => (2, std::cmp::Reverse(0)),
        }
    }
}

/// The name in a Host header or authority, without port and trailing dot.
pub(super) fn name_of(authority: &str) -> &str {
    let name = match authority.bytes().rposition(|byte| byte == b':' || byte == b']') {
        Some(at) if authority.as_bytes()[at] == b':' => &authority[..at],
        _ => authority,
    };
    name.strip_suffix('.').unwrap_or(name)
}

fn is_name(text: &str) -> bool {
    let label = |label: &str| {
        !label.is_empty()
            && label
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    text.len() <= 253 && text.split('.').all(label)
}

fn is_bracketed(text: &str) -> bool {
    let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_and_the_last_dot_do_not_count() {
        for (authority, name) in [
            ("example.com:8080", "example.com"),
            ("example.com.", "example.com"),
            ("example.com.:80", "example.com"),
            ("[::1]:80", "[::1]"),
            ("[::1]", "[::1]"),
            ("", ""),
            (":", ""),
        ] {
            assert_eq!(name_of(authority), name, "{authority}");
        }
    }

    #[test]
    fn a_star_stands_for_one_or_more_labels() {
        let below = HostRule::parse(Some("*.Example.com")).unwrap();
        for (host, accepted) in [
            ("a.example.com", true),
            ("A.B.EXAMPLE.com", true),
            ("example.com", false),
            ("xexample.com", false),
            ("é.example.com", true),
            ("éexample.com", false),
        ] {
            assert_eq!(below.accepts(host), accepted, "{host}");
        }
    }

    #[test]
    fn hosts_with_ports_or_stars_inside_are_refused() {
        for host in ["", "a:80", "a.*.b", "*", "*a.b", "a..b", "a b", "[::1", "[x]"] {
            assert_eq!(HostRule::parse(Some(host)), None, "{host}");
        }
    }
}
