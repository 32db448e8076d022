//! The cookies of one user (RFC 6265, as far as one server and one visit need it). A cookie lasts as long as its user; a server deletes
//! it with a Max-Age of 0 or less, or with an Expires before the year 2000. Domain and Secure do not matter towards one server.

/// Most cookies of a user; the oldest goes for the next.
const COOKIES_MAX: usize = 50;
/// Longest cookie, name and value together; a longer one is not kept.
const COOKIE_BYTES_MAX: usize = 4096;

/// Cookies, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Jar {
    cookies: Vec<Cookie>,
}

#[derive(Debug)]
struct Cookie {
    name: Vec<u8>,
    value: Vec<u8>,
    path: Vec<u8>,
}

impl Jar {
    pub(super) fn clear(&mut self) {
        self.cookies.clear();
    }

    /// Takes the value of a Set-Cookie field.
    pub(in crate::request) fn store(&mut self, field: &[u8]) {
        let mut parts = field.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let pair = parts.next().unwrap_or_default();
        let Some(at) = memchr::memchr(b'=', pair).filter(|at| *at > 0) else {
            return;
        };
        let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
        let (mut path, mut deleted) = (b"/".as_slice(), false);
        for attribute in parts {
            let at = memchr::memchr(b'=', attribute).unwrap_or(attribute.len());
            let (key, value) = (
                attribute[..at].trim_ascii(),
                attribute.get(at + 1..).unwrap_or_default().trim_ascii(),
            );
            if key.eq_ignore_ascii_case(b"path") && value.starts_with(b"/") {
                path = value;
            } else if key.eq_ignore_ascii_case(b"max-age") {
                deleted = value.starts_with(b"-") || value.iter().all(|byte| *byte == b'0');
            } else if key.eq_ignore_ascii_case(b"expires") {
                deleted |= memchr::memmem::find(value, b"19").is_some_and(|at| is_year(&value[at..]));
            }
        }
        self.cookies
            .retain(|cookie| (&cookie.name[..], &cookie.path[..]) != (name, path));
        if deleted || name.len() + value.len() > COOKIE_BYTES_MAX {
            return;
        }
        if self.cookies.len() == COOKIES_MAX {
            self.cookies.remove(0);
        }
        self.cookies.push(Cookie {
            name: name.to_vec(),
            value: value.to_vec(),
            path: path.to_vec(),
        });
    }

    /// Appends the Cookie field, if there is one to send, to the request that begins at `start`.
    pub(in crate::request) fn render(&self, out: &mut Vec<u8>, start: usize) {
        let line = &out[start..];
        let path = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
        let length = path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
        let from = start + line.len()
            - line
                .iter()
                .position(|byte| *byte == b' ')
                .map_or(0, |at| line.len() - at - 1);
        // A proxy is told the whole URL.
        let origin = origin_length(&out[from..from + length]);
        let path = from + origin..from + length;
        let mut between: &[u8] = b"cookie: ";
        for cookie in &self.cookies {
            if is_within(&out[path.clone()], &cookie.path) {
                out.extend_from_slice(between);
                out.extend_from_slice(&cookie.name);
                out.push(b'=');
                out.extend_from_slice(&cookie.value);
                between = b"; ";
            }
        }
        if between == b"; " {
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// How much of a request target comes before its path.
fn origin_length(target: &[u8]) -> usize {
    let Some(at) = memchr::memmem::find(target, b"://").filter(|_| !target.starts_with(b"/")) else {
        return 0;
    };
    let host = &target[at + 3..];
    at + 3 + memchr::memchr(b'/', host).unwrap_or(host.len())
}

/// Whether a year of the last century stands here, as in `01-Jan-1970` or `Jan 1970`.
fn is_year(text: &[u8]) -> bool {
    let year = text
        .get(..4)
        .is_some_and(|year| year.iter().all(u8::is_ascii_digit));
    year && !text.get(4).is_some_and(u8::is_ascii_digit)
}

/// Whether a path lies within that of a cookie (RFC 6265, 5.1.4).
fn is_within(path: &[u8], cookie: &[u8]) -> bool {
    path.strip_prefix(cookie)
        .is_some_and(|rest| rest.is_empty() || cookie.ends_with(b"/") || rest.starts_with(b"/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(jar: &Jar, path: &str) -> String {
        let mut out = b"rest of an earlier request".to_vec();
        let start = out.len();
        out.extend_from_slice(format!("GET {path} HTTP/1.1\r\nhost: h\r\n").as_bytes());
        let head = out.len();
        jar.render(&mut out, start);
        String::from_utf8(out.split_off(head)).unwrap()
    }

    #[test]
    fn cookies_are_replaced_deleted_and_sent_where_they_belong() {
        let mut jar = Jar::default();
        assert_eq!(sent(&jar, "/"), "");
        jar.store(b"deep=1; path=/a");
        assert_eq!(
            sent(&jar, "http://h:81/a/b?u=http://x/"),
            "cookie: deep=1\r\n",
            "as a proxy is told"
        );
        assert_eq!(
            sent(&jar, "http://h:81/?u=http://x/a") + &sent(&jar, "http://h:81"),
            ""
        );
        jar.clear();
        for field in [
            "a=1; HttpOnly",
            "b=2=3; Path=/shop; Secure",
            " a = 4 ;path=/",
            "c=\"x\"; Expires=Wed, 09 Jun 2100 10:18:14 GMT",
        ] {
            jar.store(field.as_bytes());
        }
        assert_eq!(sent(&jar, "/"), "cookie: a=4; c=\"x\"\r\n");
        assert_eq!(sent(&jar, "/shop/7?x=1"), "cookie: b=2=3; a=4; c=\"x\"\r\n");
        assert_eq!(sent(&jar, "/shop?x=/"), "cookie: b=2=3; a=4; c=\"x\"\r\n");
        assert_eq!(sent(&jar, "/shopping"), "cookie: a=4; c=\"x\"\r\n");
        for field in [
            "a=; Max-Age=0",
            "b=; Path=/shop; Max-Age=-1",
            "c=; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        ] {
            jar.store(field.as_bytes());
        }
        assert_eq!(sent(&jar, "/shop"), "");
    }

    #[test]
    fn what_is_no_cookie_is_passed_over_and_a_jar_has_its_bounds() {
        let mut jar = Jar::default();
        let long = format!("l={}", "x".repeat(COOKIE_BYTES_MAX));
        for field in ["", "novalue", "=x", ";", long.as_str()] {
            jar.store(field.as_bytes());
        }
        assert!(jar.cookies.is_empty());
        for number in 0..=COOKIES_MAX {
            jar.store(format!("c{number}=1").as_bytes());
        }
        assert_eq!(
            (jar.cookies.len(), jar.cookies[0].name.as_slice()),
            (COOKIES_MAX, b"c1".as_slice())
        );
    }
}
