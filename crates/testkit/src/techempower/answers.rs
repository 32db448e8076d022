//! Sends requests, and checks what every response must have.

use std::{
    fmt,
    net::SocketAddr,
    thread,
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};

use super::Kind;
use crate::{Client, Response};

/// Longest time that a date may stay the same.
const DATE_AGE: Duration = Duration::from_secs(3);
/// Largest error of a date: it is refreshed once a second and has a resolution of seconds.
const DATE_ERROR: Duration = Duration::from_secs(3);
/// Polling interval for dates.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The responses to one kind of request, with the problems found.
pub(super) struct Answers {
    address: SocketAddr,
    kind: Kind,
    problems: Vec<String>,
    /// Each target, with the date of its response, and when it was sent.
    dated: Vec<(String, String, Instant)>,
}

impl Answers {
    pub(super) fn of(address: SocketAddr, kind: Kind) -> Self {
        Self {
            address,
            kind,
            problems: Vec::new(),
            dated: Vec::new(),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn problem(&mut self, target: &str, text: impl fmt::Display) {
        self.problems.push(format!("GET {target}: {text}"));
    }

    pub(super) fn are_wrong(&self) -> bool {
        !self.problems.is_empty()
    }

    pub(super) fn into_problems(self) -> Vec<String> {
        self.problems
    }

    fn get(&self, target: &str) -> Response {
        Client::tcp(self.address).get(target)
    }

    /// Sends a request, and checks status and fields. `None`: there is no body to check.
    pub(super) fn ask(&mut self, target: &str) -> Option<Response> {
        let response = self.get(target);
        if response.status != 200 || response.body.is_empty() {
            let text = format!("status {}, {} bytes", response.status, response.body.len());
            self.problem(target, text);
            return None;
        }
        self.fields(target, &response);
        Some(response)
    }

    /// Sends a request for JSON.
    pub(super) fn ask_json(&mut self, target: &str) -> Option<Value> {
        let response = self.ask(target)?;
        match serde_json::from_slice(&response.body) {
            Ok(value) => Some(value),
            Err(error) => {
                self.problem(target, format!("the body is not JSON: {error}"));
                None
            }
        }
    }

    fn fields(&mut self, target: &str, response: &Response) {
        for name in ["server", "date", "content-type"] {
            if response.header(name).is_none() {
                self.problem(target, format!("no {name}"));
            }
        }
        if response.header("content-length").is_none() && response.header("transfer-encoding").is_none() {
            self.problem(target, "neither content-length nor transfer-encoding");
        }
        if let Some(date) = response.header("date") {
            if is_true_date(date) {
                let dated = (target.to_owned(), date.to_owned(), Instant::now());
                self.dated.push(dated);
            } else {
                self.problem(target, format!("not the date: {date:?}"));
            }
        }
        let found = response.header("content-type").unwrap_or_default();
        let (wanted, bare) = match self.kind {
            Kind::Plaintext => ("text/plain", true),
            Kind::Fortunes => ("text/html", false),
            _ => ("application/json", true),
        };
        if !is_media_type(found, wanted, bare) {
            self.problem(target, format!("{found:?} instead of {wanted}"));
        }
    }

    /// Repeats each request until its response has another date than before.
    pub(super) fn await_other_dates(&mut self) {
        for (target, date, asked) in std::mem::take(&mut self.dated) {
            while self.get(&target).header("date") == Some(date.as_str()) {
                if asked.elapsed() > DATE_AGE {
                    let text = format!("the date stays {date:?} for {DATE_AGE:?}");
                    self.problem(&target, text);
                    break;
                }
                thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// Whether this is the current time, in the one form that may be sent (RFC 9110, 5.6.7).
fn is_true_date(date: &str) -> bool {
    let now = SystemTime::now();
    httpdate::parse_http_date(date).is_ok_and(|time| {
        let error = now
            .duration_since(time)
            .or_else(|_| time.duration_since(now))
            .unwrap_or(DATE_ERROR);
        httpdate::fmt_http_date(time) == date && error < DATE_ERROR
    })
}

/// Whether a media type is the expected one with UTF-8, or, if `bare`, without a charset.
fn is_media_type(found: &str, wanted: &str, bare: bool) -> bool {
    let Some(rest) = found.strip_prefix(wanted) else {
        return false;
    };
    match rest.strip_prefix(';') {
        None => bare && rest.is_empty(),
        Some(rest) => matches!(
            rest.strip_prefix(' ').unwrap_or(rest),
            "charset=utf-8" | "charset=UTF-8"
        ),
    }
}

/// `/json`.
pub(super) fn json(answers: &mut Answers) {
    let target = Kind::Json.path();
    if let Some(found) = answers.ask_json(target)
        && found != json!({ "message": "Hello, World!" })
    {
        answers.problem(target, format!("not the greeting: {found}"));
    }
}

/// `/plaintext`.
pub(super) fn plaintext(answers: &mut Answers) {
    let target = Kind::Plaintext.path();
    if let Some(response) = answers.ask(target)
        && response.body != b"Hello, World!"
    {
        let found = String::from_utf8_lossy(&response.body).into_owned();
        answers.problem(target, format!("not the greeting: {found:?}"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::{is_media_type, is_true_date};

    #[test]
    fn media_types_are_those_that_the_benchmarks_know() {
        for (found, wanted, bare, right) in [
            ("application/json", "application/json", true, true),
            ("application/json; charset=utf-8", "application/json", true, true),
            ("application/json;charset=UTF-8", "application/json", true, true),
            (
                "application/json; charset=latin1",
                "application/json",
                true,
                false,
            ),
            ("application/jsonp", "application/json", true, false),
            ("text/html; charset=utf-8", "text/html", false, true),
            ("text/html", "text/html", false, false),
            ("text/html;  charset=utf-8", "text/html", false, false),
        ] {
            assert_eq!(is_media_type(found, wanted, bare), right, "{found}");
        }
    }

    #[test]
    fn a_date_is_true_in_one_form_and_at_one_time() {
        let now = SystemTime::now();
        assert!(is_true_date(&httpdate::fmt_http_date(now)));
        let hour = Duration::from_hours(1);
        assert!(!is_true_date(&httpdate::fmt_http_date(now - hour)));
        assert!(!is_true_date(&httpdate::fmt_http_date(now + hour)));
        assert!(!is_true_date("now"));
    }
}
