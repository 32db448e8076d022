//! Redirects on the same server: what is sent after an answer with a Location (RFC 9110, 15.4). Each is a request of its own, sent at
//! once on the connection that was redirected. One that leads to another server is not followed: connections go where the run goes.

use super::{parts::push_path, scenario::Jar, source::Put, template::split_url};
use crate::{expect::Seen, target::Url};

/// Follows the redirects of one connection.
#[derive(Debug)]
pub(crate) struct Follower {
    /// Most in a row.
    most: u32,
    tls: bool,
    /// What was sent last.
    sent: Vec<u8>,
    put: Put,
    /// What is to be sent next, if a redirect has come.
    next: Option<Vec<u8>>,
    /// Redirects followed since the last request of the run's own.
    hops: u32,
}

/// What an answer means for whoever follows redirects.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Led {
    /// It is the answer.
    Nowhere,
    /// It leads on.
    On,
    /// It leads where nobody follows; why.
    Away(String),
}

impl Follower {
    pub(crate) fn new(most: u32, tls: bool) -> Self {
        Self {
            most,
            tls,
            sent: Vec::new(),
            put: Put { head_only: false },
            next: None,
            hops: 0,
        }
    }

    /// Whether there is something to send before anything else.
    pub(crate) fn is_due(&self) -> bool {
        self.next.is_some()
    }

    /// Appends what a redirect asks for, or what `own` appends if there was none.
    pub(crate) fn render(&mut self, out: &mut Vec<u8>, own: impl FnOnce(&mut Vec<u8>) -> Put) -> Put {
        let start = out.len();
        if let Some(next) = self.next.take() {
            out.extend_from_slice(&next);
            self.put.head_only = next.starts_with(b"HEAD ");
        } else {
            self.hops = 0;
            self.put = own(out);
        }
        self.sent.clear();
        self.sent.extend_from_slice(&out[start..]);
        self.put
    }

    /// Takes the answer to what was sent; `jar` has the cookies of who has sent it.
    pub(crate) fn answered(&mut self, seen: &Seen<'_>, jar: Option<&Jar>) -> Led {
        if !matches!(seen.status, 301 | 302 | 303 | 307 | 308) {
            return Led::Nowhere;
        }
        let Some(location) = seen.field("location") else {
            return Led::Away(format!("an answer has status {} and no location", seen.status));
        };
        let location = String::from_utf8_lossy(location);
        if self.hops == self.most {
            return Led::Away(format!(
                "more than {} redirects in a row, the last one to {location}",
                self.most
            ));
        }
        match next(&self.sent, seen.status, &location, self.tls, jar) {
            Ok(next) => {
                self.hops += 1;
                self.next = Some(next);
                Led::On
            }
            Err(why) => Led::Away(format!("a redirect is not followed: {why}")),
        }
    }
}

/// The request that follows another one.
fn next(sent: &[u8], status: u16, location: &str, tls: bool, jar: Option<&Jar>) -> Result<Vec<u8>, String> {
    let end = memchr::memmem::find(sent, b"\r\n\r\n").ok_or("what was sent has no head")?;
    let head = String::from_utf8_lossy(&sent[..end]);
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or("/"));
    let named = |line: &str, name: &str| {
        line.split_once(':')
            .is_some_and(|(known, _)| known.eq_ignore_ascii_case(name))
    };
    let host = head.split("\r\n").find(|line| named(line, "host"));
    let host = host.map_or("", |line| line[5..].trim());
    let (origin, path) = origin_and_path(path);
    let path = resolve(path, host, location, tls)?;
    // What other clients do with a POST for decades, and what 303 asks for.
    let becomes_get =
        (status == 303 && method != "HEAD") || (matches!(status, 301 | 302) && method == "POST");
    let method = if becomes_get { "GET" } else { method };
    let mut out = Vec::with_capacity(sent.len());
    out.extend_from_slice(format!("{method} {origin}").as_bytes());
    push_path(path.as_bytes(), &mut out);
    out.extend_from_slice(b" HTTP/1.1\r\n");
    for line in lines {
        let of_body = [
            "content-length",
            "content-type",
            "content-encoding",
            "transfer-encoding",
        ];
        let of_body = becomes_get && of_body.iter().any(|name| named(line, name));
        let of_jar = jar.is_some() && named(line, "cookie");
        if !of_body && !of_jar {
            out.extend_from_slice(line.as_bytes());
            out.extend_from_slice(b"\r\n");
        }
    }
    if let Some(jar) = jar {
        jar.render(&mut out, 0);
    }
    out.extend_from_slice(b"\r\n");
    if !becomes_get {
        out.extend_from_slice(&sent[end + 4..]);
    }
    Ok(out)
}

/// What a request line names: for a proxy there is an origin before the path.
pub(super) fn origin_and_path(target: &str) -> (&str, &str) {
    let authority = target
        .find("://")
        .filter(|_| !target.starts_with('/'))
        .map(|at| at + 3);
    let path = authority.and_then(|at| target[at..].find('/').map(|length| at + length));
    target.split_at(path.unwrap_or(0))
}

/// The path and query that a Location means (RFC 3986, 5.2), if it is on the same server.
fn resolve(path: &str, host: &str, location: &str, tls: bool) -> Result<String, String> {
    let scheme = if tls { "https" } else { "http" };
    let location = location.split('#').next().unwrap_or_default();
    let whole = if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else {
        location.to_owned()
    };
    let first = whole.split(['/', '?']).next().unwrap_or_default();
    if first.contains(':') {
        let elsewhere = || format!("it goes to {location}");
        let to = split_url(&whole).map_err(|_| elsewhere())?;
        let from = Url::parse(&format!("{scheme}://{host}")).map_err(|_| elsewhere())?;
        return if to.shares_server(&from) {
            Ok(without_dots(&to.path_and_query))
        } else {
            Err(elsewhere())
        };
    }
    let base = path.split('?').next().unwrap_or_default();
    Ok(match location.as_bytes() {
        [] => path.to_owned(),
        [b'/', ..] => without_dots(location),
        [b'?', ..] => format!("{base}{location}"),
        _ => {
            let folder = &base[..=base.rfind('/').unwrap_or(0).min(base.len().saturating_sub(1))];
            without_dots(&format!("{folder}{location}"))
        }
    })
}

/// A path without its `.` and `..` (RFC 3986, 5.2.4); what follows `?` stays.
pub(super) fn without_dots(path_and_query: &str) -> String {
    let at = path_and_query.find('?').unwrap_or(path_and_query.len());
    let (path, query) = path_and_query.split_at(at);
    let mut kept: Vec<&str> = Vec::new();
    let segments = path.strip_prefix('/').unwrap_or(path).split('/');
    let mut is_folder = false;
    for segment in segments {
        is_folder = matches!(segment, "." | "..");
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    let end = if is_folder && !kept.is_empty() { "/" } else { "" };
    format!("/{}{end}{query}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_resolved_on_the_same_server() {
        for (location, path) in [
            ("/x", "/x"),
            ("x?y#z", "/a/x?y"),
            ("../x", "/x"),
            ("./../../x/./", "/x/"),
            ("..", "/"),
            ("?q=1", "/a/b?q=1"),
            ("", "/a/b?c=d"),
            ("http://h:81/x?y", "/x?y"),
            ("//H:81", "/"),
            ("/x?u=http://o/../y", "/x?u=http://o/../y"),
        ] {
            assert_eq!(
                resolve("/a/b?c=d", "h:81", location, false).as_deref(),
                Ok(path),
                "{location}"
            );
        }
        assert_eq!(resolve("/", "h", "https://h:443/x", true).as_deref(), Ok("/x"));
        for location in [
            "https://h:81/",
            "http://h/",
            "http://h:82/x",
            "//other/",
            "ftp://h:81/",
            "mailto:a",
        ] {
            let refused = resolve("/a", "h:81", location, false);
            assert_eq!(refused, Err(format!("it goes to {location}")));
        }
    }

    const POST: &[u8] =
        b"POST /a HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\nCookie: old=1\r\nContent-Type: text/plain\r\ncontent-length: 2\r\n\r\nhi";

    fn followed(sent: &[u8], status: u16) -> String {
        String::from_utf8(next(sent, status, "/b c", false, None).unwrap()).unwrap()
    }

    #[test]
    fn method_and_body_stay_where_the_status_says_so() {
        let kept = String::from_utf8(POST.to_vec()).unwrap().replace("/a", "/b%20c");
        let bare = "GET /b%20c HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\nCookie: old=1\r\n\r\n";
        for (status, expected) in [(301, bare), (302, bare), (303, bare), (307, &kept), (308, &kept)] {
            assert_eq!(followed(POST, status), expected, "{status}");
        }
        let put = String::from_utf8(POST.to_vec()).unwrap().replace("POST", "PUT");
        assert_eq!(followed(put.as_bytes(), 302), put.replace("/a", "/b%20c"));
        assert_eq!(followed(put.as_bytes(), 303), bare);
        let proxied = followed(b"GET http://h/a HTTP/1.1\r\nHost: h\r\n\r\n", 302);
        assert_eq!(proxied, "GET http://h/b%20c HTTP/1.1\r\nHost: h\r\n\r\n");
        assert!(followed(b"HEAD / HTTP/1.1\r\n\r\n", 303).starts_with("HEAD /b%20c "));
    }

    #[test]
    fn cookies_that_came_with_the_redirect_go_along() {
        let mut jar = Jar::default();
        jar.store(b"session=7");
        let next = next(POST, 303, "/b", false, Some(&jar)).unwrap();
        let next = String::from_utf8(next).unwrap();
        assert_eq!(
            next,
            "GET /b HTTP/1.1\r\nHost: h\r\nX-Id: 1\r\ncookie: session=7\r\n\r\n"
        );
    }

    #[test]
    fn a_loop_ends_at_the_bound_and_the_next_request_begins_anew() {
        let mut follower = Follower::new(2, false);
        let seen = |head| Seen {
            status: 302,
            body_bytes: 0,
            head,
            body: b"",
        };
        let own = |out: &mut Vec<u8>| {
            out.extend_from_slice(POST);
            Put { head_only: false }
        };
        for _ in 0..2 {
            let mut out = b"before".to_vec();
            follower.render(&mut out, own);
            assert_eq!(out, [b"before", POST].concat());
            for _ in 0..2 {
                assert_eq!(
                    follower.answered(&seen(b"HTTP/1.1 302 F\r\nLocation: /l\r\n\r\n"), None),
                    Led::On
                );
                assert!(follower.is_due());
                follower.render(&mut Vec::new(), |_| panic!("what is due comes first"));
            }
            let Led::Away(why) = follower.answered(&seen(b"HTTP/1.1 302 F\r\nLocation: /l\r\n\r\n"), None)
            else {
                panic!("it goes on for ever")
            };
            assert_eq!(why, "more than 2 redirects in a row, the last one to /l");
            assert!(!follower.is_due());
        }
        let missing = follower.answered(&seen(b"HTTP/1.1 302 F\r\n\r\n"), None);
        assert_eq!(
            missing,
            Led::Away("an answer has status 302 and no location".into())
        );
        let ok = Seen {
            status: 200,
            body_bytes: 0,
            head: b"",
            body: b"",
        };
        assert_eq!(follower.answered(&ok, None), Led::Nowhere);
    }
}
