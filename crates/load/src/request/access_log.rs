//! Requests that a web server has logged, in the common format or the combined one (Apache, nginx and most others):
//!
//! ```text
//! 127.0.0.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /index.html?a=b HTTP/1.1" 200 2326 "http://referer/" "browser"
//! ```
//!
//! Method, path and second are all that is taken: a log keeps neither headers nor bodies. Lines that are not requests, such as what
//! scanners leave behind, are counted.

use std::collections::HashMap;

use jiff::Timestamp;

use super::{
    parts::{Parts, is_token, push_path},
    template::split_url,
    urls::{TARGETS_MAX, Target, Targets},
};
use crate::target::Url;

/// What a log holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessLog {
    /// Requests, in their order.
    pub targets: Targets,
    /// Lines that are no requests.
    pub left_out: usize,
}

/// Why a text is no log.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum AccessLogError {
    /// Not one line is a request.
    #[error(
        "none of the {lines} lines is a request; accepted are the common and the combined log format, such as \
         `127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 12`"
    )]
    Empty {
        /// Lines that are not empty.
        lines: usize,
    },
    /// More than are kept.
    #[error("there are more than {TARGETS_MAX} requests, the most that are kept")]
    TooMany,
}

/// Reads a log. All requests go to `base`, whatever server they were logged by; what a line does not say is as in `defaults`.
pub fn read_access_log(bytes: &[u8], base: &Url, defaults: &Parts) -> Result<AccessLog, AccessLogError> {
    let (mut targets, mut seconds, mut left_out) = (Vec::new(), Vec::new(), 0);
    for (at, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let Some(entry) = std::str::from_utf8(line).ok().and_then(read_line) else {
            left_out += 1;
            continue;
        };
        if targets.len() == TARGETS_MAX {
            return Err(AccessLogError::TooMany);
        }
        let url = Url {
            path_and_query: entry.path,
            ..base.clone()
        };
        let mut target = Target::new(url, Some(base), defaults, format!("line {}", at + 1));
        target.parts.method = entry.method;
        targets.push(target);
        seconds.push(entry.second);
    }
    spread(&mut targets, &seconds);
    match Targets::new(targets) {
        Ok(targets) => Ok(AccessLog { targets, left_out }),
        Err(_) => Err(AccessLogError::Empty { lines: left_out }),
    }
}

/// A log knows seconds: what belongs to the same one is spread evenly over it, in its order.
fn spread(targets: &mut [Target], seconds: &[Option<u64>]) {
    let mut counts = HashMap::<u64, (u64, u64)>::new();
    for second in seconds.iter().flatten() {
        counts.entry(*second).or_default().0 += 1;
    }
    for (target, second) in targets.iter_mut().zip(seconds) {
        target.due_ns = second.map(|second| {
            let (count, place) = counts.get_mut(&second).expect("each second was counted");
            let within = 1_000_000_000 * *place / *count;
            *place += 1;
            second * 1_000_000_000 + within
        });
    }
}

struct Entry {
    method: String,
    path: String,
    /// Since 1970, if the line says so.
    second: Option<u64>,
}

fn read_line(line: &str) -> Option<Entry> {
    let (before, rest) = line.split_once("] \"")?;
    let time = &before[before.rfind('[')? + 1..];
    // A quote or a control character within is escaped, which no request that a client meant well has.
    let request = &rest[..rest.find('"')?];
    let [method, target, version] = request.split(' ').collect::<Vec<_>>()[..] else {
        return None;
    };
    let is_method = is_token(method)
        && method
            .bytes()
            .all(|byte| byte.is_ascii_uppercase() || byte == b'-');
    if !is_method || !version.starts_with("HTTP/") || request.contains('\\') {
        return None;
    }
    let path = if target.starts_with('/') {
        target.to_owned()
    } else {
        let url = split_url(target).ok().filter(|_| target.contains("://"))?;
        url.path_and_query
    };
    let mut escaped = Vec::with_capacity(path.len());
    push_path(path.as_bytes(), &mut escaped);
    Some(Entry {
        method: method.to_owned(),
        path: String::from_utf8(escaped).ok()?,
        second: seconds(time),
    })
}

/// Seconds since 1970 of a time such as `10/Oct/2000:13:55:36 -0700`.
fn seconds(text: &str) -> Option<u64> {
    let time = Timestamp::strptime("%d/%b/%Y:%T %z", text).ok()?;
    u64::try_from(time.as_second()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AccessLog, AccessLogError> {
        let base = Url::parse("http://localhost:8080/").unwrap();
        read_access_log(text.as_bytes(), &base, &Parts::get(&base))
    }

    #[test]
    fn requests_are_taken_in_order_and_the_rest_is_counted() {
        let log = read(
            "127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] \"GET /a?b=c HTTP/1.0\" 200 2326\r\n\
             ::1 - - [10/Oct/2000:20:55:36 +0000] \"POST /x HTTP/2.0\" 201 - \"http://ref/\" \"agent [1] \\\"x\\\"\"\n\
             \n\
             shop:80 1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"GET http://h:1/y?z HTTP/1.1\" 200 1\n\
             1.2.3.4 - - [now] \"HEAD /p[1]|2 HTTP/1.1\" 200 1\n\
             1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"-\" 408 0\n\
             1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"\\x16\\x03\" 400 0\n\
             1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"GET /\\\" HTTP/1.1\" 400 0\n\
             1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"CONNECT h:1 HTTP/1.1\" 400 0\n\
             1.2.3.4 - - [10/Oct/2000:20:55:37 +0000] \"GET /old\" 400 0\n\
             no log at all\n",
        )
        .unwrap();
        let shown: Vec<_> = log
            .targets
            .all()
            .iter()
            .map(|target| {
                (
                    target.place.as_str(),
                    target.parts.method.as_str(),
                    target.parts.path_and_query.as_str(),
                    target.due_ns,
                )
            })
            .collect();
        let second = 971_211_336_000_000_000;
        assert_eq!(
            shown,
            [
                ("line 1", "GET", "/a?b=c", Some(second)),
                ("line 2", "POST", "/x", Some(second + 500_000_000)),
                ("line 4", "GET", "/y?z", Some(second + 1_000_000_000)),
                ("line 5", "HEAD", "/p[1]%7C2", None),
            ]
        );
        assert_eq!(log.left_out, 6);
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, expected) in [
            ("01/Jan/1970:00:00:00 +0000", Some(0)),
            ("29/Feb/2024:23:59:59 +0000", Some(1_709_251_199)),
            ("01/Mar/2024:01:30:00 +0130", Some(1_709_251_200)),
            ("31/Dec/1999:19:00:00 -0500", Some(946_684_800)),
            ("31/Foo/1999:19:00:00 -0500", None),
            ("31/Dec/1999", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }

    #[test]
    fn a_text_without_a_request_is_no_log() {
        let error = read("a\nb\n").unwrap_err().to_string();
        assert!(
            error.contains("none of the 2 lines is a request; accepted are the common"),
            "{error}"
        );
    }
}
