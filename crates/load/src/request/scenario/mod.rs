//! A scenario: the steps that every user goes through, read from JSON. What a step needs from earlier answers is known by name before
//! the run begins, so that a misspelt name is an error of the file and not of the server.
//!
//! ```json
//! {
//!   "variables": {"user": "ann"},
//!   "steps": [
//!     {"name": "login", "method": "POST", "path": "/login", "body": {"user": "{{user}}"},
//!      "extract": {"token": {"json": "$.token"}}, "think_ms": [100, 500]},
//!     {"path": "/orders?page={{random 1 9}}", "headers": {"authorization": "Bearer {{token}}"},
//!      "expect": {"status": "200", "json": "$.orders"}}
//!   ]
//! }
//! ```

mod cookies;
mod error;
mod extract;
mod read;
mod user;

pub(crate) use self::cookies::Jar;
pub use self::error::ScenarioError;
use self::extract::Extract;
pub(crate) use self::user::{Pass, Turn, User};
use super::{source::Random, template::Template};
use crate::expect::Expect;

/// Most steps.
const STEPS_MAX: usize = 1000;
/// Most values with names.
const VARIABLES_MAX: usize = 64;
/// Longest value taken from an answer. One that is longer fails its step.
const VARIABLE_BYTES_MAX: usize = 16 * 1024;
/// Longest time to think: an hour.
const THINK_MS_MAX: u64 = 3_600_000;

/// The steps that every user goes through.
#[derive(Clone, Debug)]
pub struct Scenario {
    steps: Box<[Step]>,
    /// What each variable is when a pass begins.
    variables: Vec<(String, Vec<u8>)>,
    /// Whether a step that fails ends the pass.
    restarts: bool,
    /// Whether cookies stay from one pass to the next.
    keeps_cookies: bool,
}

#[derive(Clone, Debug)]
struct Step {
    name: String,
    template: Template,
    extracts: Vec<Extract>,
    /// `None`: what the run expects.
    expect: Option<Expect>,
    think: Think,
}

/// A time to think, after the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Think {
    low_ms: u64,
    high_ms: u64,
}

impl Think {
    /// In nanoseconds.
    fn draw(self, random: &mut Random) -> u64 {
        if self.high_ms == 0 {
            return 0;
        }
        self.low_ms * 1_000_000 + random.up_to((self.high_ms - self.low_ms) * 1_000_000)
    }
}

impl Scenario {
    /// How many steps there are.
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there are none, which [`Scenario::parse`] refuses.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    pub(super) fn templates(&mut self) -> impl Iterator<Item = &mut Template> {
        self.steps.iter_mut().map(|step| &mut step.template)
    }

    /// Each step as it could be sent.
    pub(super) fn samples(&self) -> Vec<Vec<u8>> {
        self.steps.iter().map(|step| step.template.sample()).collect()
    }

    /// What each variable is when a pass begins.
    fn start_values(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.variables.iter().map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expect::{Expect, Seen, Unexpected},
        failure::Class,
        request::{Grammar, Parts},
        target::Url,
    };
    use serde_json::{Value, json};

    fn parse(scenario: &Value) -> Result<Scenario, ScenarioError> {
        let url = Url::parse("http://h:81/").unwrap();
        Scenario::parse(&scenario.to_string(), &url, &Parts::get(&url), &Grammar::braces())
    }

    /// A user, with the numbers of passes that it takes.
    struct Visit {
        user: User,
        passes: u64,
        now: u64,
    }

    impl Visit {
        fn new(scenario: &Value) -> Self {
            let user = User::new(std::sync::Arc::new(parse(scenario).unwrap()), Random::new(1));
            Self {
                user,
                passes: 0,
                now: 0,
            }
        }

        fn send(&mut self) -> String {
            self.user.begin(|| {
                self.passes += 1;
                self.passes - 1
            });
            let mut out = Vec::new();
            self.user.send(1, &mut Vec::new(), &mut out);
            String::from_utf8(out).unwrap()
        }

        fn answer(&mut self, status: u16, fields: &str, body: &str) -> Result<(), Unexpected> {
            let head = format!("HTTP/1.1 {status} X\r\n{fields}\r\n");
            let seen = Seen {
                status,
                body_bytes: body.len() as u64,
                head: head.as_bytes(),
                body: body.as_bytes(),
            };
            self.user.answered(&seen, &Expect::default(), self.now)
        }
    }

    #[test]
    fn later_steps_use_what_earlier_answers_said() {
        let mut visit = Visit::new(&json!({
            "variables": {"user": "ann", "tries": 3},
            "steps": [
                {"name": "login", "path": "/login", "body": {"user": "{{user}}", "n": "{{counter}}"}, "extract": {
                    "token": {"json": "$.auth.token"},
                    "place": {"header": "Location"},
                    "id": {"header": "location", "regex": "/users/(\\d+)"},
                    "word": {"regex": "w[a-z]+"},
                    "none": {"json": "$.none", "default": "-"},
                    "list": "$.list",
                }},
                {"method": "PUT", "path": "{{place}}?n={{counter}}", "headers": {"Authorization": "Bearer {{token}}", "x": [1, "{{none}}"]},
                 "body": "{{id}} {{word}} {{list}} {{tries}}"},
            ],
        }));
        let first = visit.send();
        assert!(
            first.starts_with("POST /login HTTP/1.1\r\nhost: h:81\r\ncontent-type: application/json\r\n"),
            "{first}"
        );
        assert!(first.ends_with("{\"n\":\"1\",\"user\":\"ann\"}"), "{first}");
        visit
            .answer(
                200,
                "Location: /users/42\r\n",
                r#"{"auth": {"token": "t\r\nx: y"}, "list": [1], "text": "a word"}"#,
            )
            .unwrap();
        assert_eq!(
            visit.send(),
            "PUT /users/42?n=1 HTTP/1.1\r\nhost: h:81\r\nAuthorization: Bearer tx: y\r\nx: 1\r\nx: -\r\ncontent-length: 13\r\n\r\n42 word [1] 3"
        );
        visit.answer(200, "", "").unwrap();
        assert!(
            visit.send().ends_with("{\"n\":\"2\",\"user\":\"ann\"}"),
            "a new pass has a new number"
        );
    }

    #[test]
    fn cookies_are_those_of_the_pass() {
        for (keeps, later) in [(false, false), (true, true)] {
            let mut visit =
                Visit::new(&json!({"keep_cookies": keeps, "steps": [{"path": "/a"}, {"path": "/b"}]}));
            visit.send();
            visit
                .answer(200, "Set-Cookie: s=1; Path=/\r\nset-cookie: t=2\r\n", "")
                .unwrap();
            assert!(visit.send().contains("\r\ncookie: s=1; t=2\r\n"));
            visit.answer(200, "", "").unwrap();
            assert_eq!(visit.send().contains("cookie"), later);
        }
    }

    #[test]
    fn a_cookie_field_of_its_own_is_left_alone() {
        let mut visit = Visit::new(&json!([{"path": "/a", "headers": {"Cookie": "mine=1"}}]));
        visit.send();
        visit.answer(200, "Set-Cookie: s=1\r\n", "").unwrap();
        assert!(visit.send().contains("Cookie: mine=1\r\n\r\n"));
    }

    #[test]
    fn a_step_that_fails_ends_the_pass_or_not() {
        for (on_failure, next) in [("restart", "GET /a "), ("continue", "GET /b ")] {
            let mut visit = Visit::new(&json!({"on_failure": on_failure, "steps": [
                {"name": "first", "path": "/a", "expect": {"status": 201, "json": "$.ok=true"}}, {"path": "/b"}]}));
            visit.send();
            let wrong = visit.answer(200, "", "").unwrap_err();
            assert_eq!(
                (wrong.class, wrong.text.as_str()),
                (Class::Status, "step 1 (first): an answer has status 200")
            );
            assert!(visit.send().starts_with(next));
            visit.user.lost();
            assert!(visit.send().starts_with("GET /a "));
        }
    }

    #[test]
    fn a_value_that_is_not_there_fails_its_step() {
        let mut visit =
            Visit::new(&json!([{"path": "/a", "extract": {"t": {"json": "$.t", "regex": "^x"}}}]));
        for (body, says) in [
            (
                "{}",
                "step 1: cannot extract `t`: $.t of the body does not match `^x`, or is not there; the body is `{}`",
            ),
            ("{\"t\": \"y\"}", "does not match `^x`"),
            ("text", "cannot extract `t`: the body is not JSON"),
        ] {
            let wrong = visit.answer(200, "", body).unwrap_err();
            assert_eq!(wrong.class, Class::Mismatch);
            assert!(wrong.text.contains(says), "{}", wrong.text);
        }
        let mut visit = Visit::new(&json!([{"path": "/a", "extract": {"t": "$.t"}}]));
        let wrong = visit
            .answer(
                200,
                "",
                &format!("{{\"t\": \"{}\"}}", "y".repeat(VARIABLE_BYTES_MAX + 1)),
            )
            .unwrap_err();
        assert!(
            wrong.text.contains("it has 16385 bytes, at most 16384 are kept"),
            "{}",
            wrong.text
        );
    }

    #[test]
    fn a_user_thinks_after_an_answer_and_asks_to_be_woken_once() {
        let mut visit = Visit::new(&json!([{"path": "/a", "think_ms": [10, 20]}]));
        assert_eq!(visit.user.turn(0, false), Turn::Send);
        visit.send();
        assert_eq!(visit.user.turn(0, true), Turn::Wait);
        visit.now = 1_000;
        visit.answer(200, "", "").unwrap();
        let Turn::Think(until) = visit.user.turn(1_000, false) else {
            panic!("it does not think")
        };
        assert!((10_001_000..=20_001_000).contains(&until), "{until}");
        assert_eq!(visit.user.turn(until - 1, false), Turn::Wait);
        assert_eq!(visit.user.turn(until, false), Turn::Send);
    }

    #[test]
    fn what_is_no_scenario_is_refused_with_its_step_and_what_is_accepted() {
        let step = |step: Value| json!([{"path": "/"}, step]);
        for (scenario, says) in [
            (json!(1), "neither an object with `steps` nor an array of steps"),
            (
                json!({"step": []}),
                "the scenario: `step` is not known; accepted are steps, variables, on_failure, keep_cookies",
            ),
            (
                json!({"steps": []}),
                "the scenario: steps is []; accepted is an array with at least one step",
            ),
            (json!({}), "the scenario: steps is missing"),
            (
                json!({"steps": [{}], "on_failure": "stop"}),
                "on_failure is \"stop\"; accepted is \"restart\" or \"continue\"",
            ),
            (
                json!({"steps": [{}], "keep_cookies": 1}),
                "keep_cookies is 1; accepted is true or false",
            ),
            (
                json!({"steps": [{}], "variables": {"a": []}}),
                "a is []; accepted is text, a number",
            ),
            (
                json!({"steps": [{}], "variables": {"uuid": "x"}}),
                "the name of a variable is `uuid`; accepted is letters",
            ),
            (step(json!("/")), "step 2 is \"/\"; accepted is an object such as"),
            (
                step(json!({"name": "x", "url": "/"})),
                "step 2 (x): `url` is not known; accepted are name, method, path",
            ),
            (step(json!({"path": 1})), "step 2: path is 1; accepted is text"),
            (
                step(json!({"path": "http://other/"})),
                "step 2: http://other/ is on another server than h:81",
            ),
            (
                step(json!({"path": "/{{token}}"})),
                "step 2: the path, byte 2: `{{token}}` is not known; accepted are counter",
            ),
            (step(json!({"method": "A B"})), "step 2: `A B` is not a method"),
            (
                step(json!({"headers": {"a": {}}})),
                "step 2: a is {}; accepted is text or a number",
            ),
            (
                step(json!({"headers": {"a b": "c"}})),
                "step 2: `a b` is not a header name",
            ),
            (
                step(json!({"extract": {"a": 1}})),
                "step 2: extract `a` is 1; accepted is an object with one of",
            ),
            (
                step(json!({"extract": {"a": {}}})),
                "step 2: extract `a` is {}; accepted is an object with one of",
            ),
            (
                step(json!({"extract": {"a": {"json": "$", "header": "x"}}})),
                "accepted is an object with one of",
            ),
            (
                step(json!({"extract": {"a": {"jsn": "$"}}})),
                "step 2, extract `a`: `jsn` is not known; accepted are json, header, regex, default",
            ),
            (
                step(json!({"extract": {"a": {"regex": "("}}})),
                "step 2, extract `a`: `(` is not a regular expression",
            ),
            (
                step(json!({"extract": {"a": "$.["}})),
                "step 2, extract `a`: `$.[` is not a JSON path",
            ),
            (
                step(json!({"extract": {"a b": "$"}})),
                "the name of a variable is `a b`",
            ),
            (
                step(json!({"expect": {"status": "20"}})),
                "step 2, expect: `20` is not a status; accepted are",
            ),
            (
                step(json!({"expect": {"status": []}})),
                "step 2, expect: status is []; accepted is a status, or text",
            ),
            (
                step(json!({"expect": {"stats": 1}})),
                "step 2, expect: `stats` is not known; accepted are status, body, json, header",
            ),
            (
                step(json!({"think_ms": [5, 1]})),
                "step 2: think_ms is [5,1]; accepted is a number of milliseconds up to 3600000",
            ),
            (step(json!({"think_ms": -1})), "think_ms is -1"),
            (step(json!({"think_ms": 3_600_001})), "think_ms is 3600001"),
        ] {
            let error = chain(&parse(&scenario).unwrap_err());
            assert!(error.contains(says), "{scenario}: {error}");
        }
        let url = Url::parse("http://h/").unwrap();
        let error = Scenario::parse("[{]", &url, &Parts::get(&url), &Grammar::none())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("the scenario is not JSON: key must be a string at line 1"),
            "{error}"
        );
        let many = Value::Array(vec![json!({}); STEPS_MAX + 1]);
        assert!(
            parse(&many)
                .unwrap_err()
                .to_string()
                .contains("more than 1000 steps")
        );
    }

    /// All of an error, with its causes.
    fn chain(error: &dyn std::error::Error) -> String {
        let cause = error.source().map(|cause| format!(": {}", chain(cause)));
        format!("{error}{}", cause.unwrap_or_default())
    }
}
