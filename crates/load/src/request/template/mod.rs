//! Requests with placeholders. They are read once, with errors that say where and what is accepted; each rendering then only appends to
//! the caller's buffer, and states the length that the body really has.
//!
//! A request has one number, given to no other request of the run. `{{counter}}`, `[<id>]`, `${sequence}` and the row of a table all
//! come from it, so that they agree within a request. `{{uuid}}` and what is random are drawn anew wherever they stand.

mod grammar;
mod pattern;
mod value;

pub use self::grammar::{Grammar, TemplateError};
use self::{
    grammar::Pieces,
    value::{Value, push_decimal},
};
use super::{
    parts::{Message, Parts, check_token},
    proxied,
    scenario::Jar,
    source::{Put, Random},
};
use crate::target::{Url, UrlError};

/// A request with placeholders, or without.
#[derive(Clone, Debug)]
pub struct Template {
    head: Vec<Piece>,
    /// Empty when the body is always the same; it then ends the head.
    body: Vec<Piece>,
    head_only: bool,
}

#[derive(Clone, Debug)]
enum Piece {
    Literal(Vec<u8>),
    Value(Value, Place),
    /// The length of the body.
    Length,
    /// The Cookie field, if there is any cookie.
    Cookies,
}

/// Where a value stands, which decides what may be in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Path,
    Field,
    Body,
}

/// What placeholders are filled from.
#[derive(Debug)]
pub(in crate::request) struct Draw<'a> {
    /// From 0; no other request has it.
    pub(super) number: u64,
    pub(super) seed: u64,
    pub(super) random: &'a mut Random,
    pub(super) variables: &'a [Vec<u8>],
    pub(super) jar: Option<&'a Jar>,
    /// Room for the body while its length is not known.
    pub(super) body: &'a mut Vec<u8>,
}

impl Template {
    /// Reads the placeholders of a request.
    pub fn new(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Self::build(parts, grammar, false)
    }

    /// The same, with the cookies of the user who sends it, unless the request has its own.
    pub(super) fn of_step(parts: &Parts, grammar: &Grammar<'_>) -> Result<Self, TemplateError> {
        Self::build(parts, grammar, !parts.has_field("cookie"))
    }

    fn build(parts: &Parts, grammar: &Grammar<'_>, cookies: bool) -> Result<Self, TemplateError> {
        check_token("method", &parts.method)?;
        let mut head = Pieces::default();
        let mut body = Pieces::default();
        head.push(&[parts.method.as_bytes(), b" "]);
        head.read(parts.path_and_query.as_bytes(), Place::Path, "the path", grammar)?;
        head.push(&[parts.version.line_end().as_bytes(), b"\r\n"]);
        for (name, value) in &parts.fields {
            check_token("header name", name)?;
            head.push(&[name.as_bytes(), b": "]);
            head.read(
                value.as_bytes(),
                Place::Field,
                &format!("header `{name}`"),
                grammar,
            )?;
            head.push(&[b"\r\n"]);
        }
        if cookies {
            head.0.push(Piece::Cookies);
        }
        match &grammar.bodies {
            Some(bodies) => body
                .0
                .push(Piece::Value(Value::Line(bodies.clone()), Place::Body)),
            None => body.read(&parts.body, Place::Body, "the body", grammar)?,
        }
        let body = body.into_fixed();
        if body.is_err() {
            let framed = |(name, _): &&(String, String)| {
                ["content-length", "transfer-encoding"]
                    .iter()
                    .any(|known| name.eq_ignore_ascii_case(known))
            };
            if let Some((field, _)) = parts.fields.iter().find(framed) {
                return Err(TemplateError::Framed { field: field.clone() });
            }
            head.push(&[b"content-length: "]);
            head.0.push(Piece::Length);
            head.push(&[b"\r\n"]);
        } else if let Ok(body) = &body
            && parts.needs_length()
        {
            head.push(&[b"content-length: ", body.len().to_string().as_bytes(), b"\r\n"]);
        }
        if let Some(option) = parts.connection() {
            head.push(&[b"connection: ", option.as_bytes(), b"\r\n"]);
        }
        head.push(&[b"\r\n"]);
        let body = match body {
            Ok(body) => {
                head.push(&[&body]);
                Vec::new()
            }
            Err(pieces) => pieces.0,
        };
        Ok(Self {
            head: head.0,
            body,
            head_only: parts.method == "HEAD",
        })
    }

    /// For a proxy: with the whole URL, and with a further field or an empty text.
    pub(super) fn through_proxy(&mut self, origin: &str, field: &str) {
        let mut literals = self.head.iter_mut().filter_map(|piece| match piece {
            Piece::Literal(bytes) => Some(bytes),
            _ => None,
        });
        // The method is always one.
        let Some(first) = literals.next() else {
            return;
        };
        proxied::name_origin(first, origin);
        if !proxied::insert_field(first, field) {
            literals.any(|bytes| proxied::insert_field(bytes, field));
        }
    }

    /// Whether the cookies of the user who sends it are in it.
    pub(super) fn has_cookies(&self) -> bool {
        self.head.iter().any(|piece| matches!(piece, Piece::Cookies))
    }

    /// The bytes, when they are always the same.
    pub(super) fn into_fixed(self) -> Result<Message, Self> {
        match (&self.head[..], self.body.is_empty()) {
            ([Piece::Literal(bytes)], true) => Ok(Message {
                bytes: bytes.clone().into(),
                head_only: self.head_only,
            }),
            _ => Err(self),
        }
    }

    /// A request as it could be sent.
    pub(in crate::request) fn sample(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut draw = Draw {
            number: 0,
            seed: 0,
            random: &mut Random::new(0),
            variables: &[],
            jar: None,
            body: &mut Vec::new(),
        };
        self.render(&mut draw, &mut out);
        out
    }

    /// Appends the request.
    pub(super) fn render(&self, draw: &mut Draw<'_>, out: &mut Vec<u8>) -> Put {
        let start = out.len();
        let mut body = std::mem::take(draw.body);
        body.clear();
        for piece in &self.body {
            piece.render(draw, 0, &mut body, 0);
        }
        for piece in &self.head {
            piece.render(draw, body.len(), out, start);
        }
        out.extend_from_slice(&body);
        *draw.body = body;
        Put {
            head_only: self.head_only,
        }
    }
}

impl From<Message> for Template {
    fn from(message: Message) -> Self {
        Self {
            head: vec![Piece::Literal(message.bytes.into())],
            body: Vec::new(),
            head_only: message.head_only,
        }
    }
}

impl Piece {
    fn render(&self, draw: &mut Draw<'_>, length: usize, out: &mut Vec<u8>, start: usize) {
        match self {
            Self::Literal(bytes) => out.extend_from_slice(bytes),
            Self::Length => push_decimal(length as u64, out),
            Self::Cookies => {
                if let Some(jar) = draw.jar {
                    jar.render(out, start);
                }
            }
            Self::Value(value, place) => value.render(*place, draw, out),
        }
    }
}

/// Reads a URL whose path may have placeholders: the path and query stay as they were typed.
pub fn split_url(text: &str) -> Result<Url, UrlError> {
    let authority = text.find("://").map_or(0, |at| at + 3);
    let path = text[authority..]
        .find(['/', '?', '#'])
        .map_or(text.len(), |at| authority + at);
    let mut url = Url::parse(&text[..path])?;
    let rest = text[path..].split('#').next().unwrap_or_default();
    url.path_and_query = if rest.starts_with('/') {
        rest.to_owned()
    } else {
        format!("/{rest}")
    };
    Ok(url)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::request::{Bodies, Csv, body::Lines};
    use proptest::prelude::*;

    fn csv() -> Arc<Csv> {
        Arc::new(Csv::parse("id,name,text\n1,\"Ann B\",\"a\nb\"\n22,\"Zoë\",c\n").unwrap())
    }

    fn grammar() -> Grammar<'static> {
        Grammar {
            csv: Some(csv()),
            env: &|name| (name == "TOKEN").then(|| "t 1".into()),
            id: true,
            sequence: true,
            ..Grammar::braces()
        }
    }

    fn parts(path: &str, field: &str, body: &str) -> Parts {
        Parts {
            method: "POST".into(),
            path_and_query: path.into(),
            fields: vec![("host".into(), "h".into()), ("x".into(), field.into())],
            body: body.into(),
            keep_alive: true,
            version: crate::request::Version::Http11,
        }
    }

    fn render(template: &Template, numbers: std::ops::Range<u64>, seed: u64) -> Vec<String> {
        let (mut random, mut body) = (Random::new(seed), Vec::new());
        let each = |number| {
            let mut draw = Draw {
                number,
                seed,
                random: &mut random,
                variables: &[],
                jar: None,
                body: &mut body,
            };
            let mut out = Vec::new();
            template.render(&mut draw, &mut out);
            String::from_utf8(out).unwrap()
        };
        numbers.map(each).collect()
    }

    fn bodies(body: &str, count: u64) -> Vec<String> {
        let template = Template::new(&parts("/", "v", body), &grammar()).unwrap();
        let rendered = render(&template, 0..count, 7).into_iter();
        rendered
            .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
            .collect()
    }

    #[test]
    fn every_part_is_filled_and_the_length_is_that_of_the_body() {
        let parts = parts(
            "/u/{{counter}}?n={{csv.name}}&t={{env TOKEN}}",
            "{{ csv.name }}/${sequence}",
            "{\"id\":{{counter 9}},\"text\":\"{{csv.text}}\"}",
        );
        let template = Template::new(&parts, &grammar()).unwrap();
        assert_eq!(
            render(&template, 0..2, 7),
            [
                "POST /u/1?n=Ann%20B&t=t%201 HTTP/1.1\r\nhost: h\r\nx: Ann B/1\r\ncontent-length: 21\r\n\r\n{\"id\":9,\"text\":\"a\nb\"}",
                "POST /u/2?n=Zo%C3%AB&t=t%201 HTTP/1.1\r\nhost: h\r\nx: Zoë/2\r\ncontent-length: 20\r\n\r\n{\"id\":10,\"text\":\"c\"}",
            ]
        );
    }

    #[test]
    fn what_never_changes_becomes_one_message() {
        for (parts, grammar) in [
            (parts("/{{counter}}", "[<id>]", "${sequence}"), Grammar::none()),
            (
                parts("/x", "{{env TOKEN}}", "\\{{counter}}{{env TOKEN}}"),
                grammar(),
            ),
        ] {
            let template = Template::new(&parts, &grammar).unwrap();
            let bytes = template.into_fixed().unwrap().bytes;
            let text = String::from_utf8(bytes.into()).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert!(
                head.ends_with(&format!("content-length: {}", body.len())),
                "{text}"
            );
        }
        let plain = parts("/a", "b", "c");
        let template = Template::new(&plain, &grammar()).unwrap();
        assert_eq!(template.into_fixed().unwrap(), plain.message().unwrap());
    }

    #[test]
    fn braces_can_stand_for_themselves() {
        assert_eq!(
            bodies("\\{{counter}} {{{counter}}} }}", 1),
            ["{{counter}} {1} }}"]
        );
    }

    #[test]
    fn identifiers_have_their_shape_and_are_all_different() {
        let ids = bodies("[<id>]", 1000);
        assert!(
            ids.iter()
                .all(|id| id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
        );
        let uuids = bodies("{{uuid}}", 1000);
        for uuid in &uuids {
            let lengths: Vec<_> = uuid.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12]);
            assert_eq!(uuid.as_bytes()[14], b'4');
            assert!(b"89ab".contains(&uuid.as_bytes()[19]), "{uuid}");
        }
        for mut all in [ids, uuids] {
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), 1000);
        }
    }

    #[test]
    fn random_numbers_reach_both_ends() {
        let mut numbers: Vec<i64> = bodies("{{random -1 1}}", 100)
            .iter()
            .map(|text| text.parse().unwrap())
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers, [-1, 0, 1]);
        let all = format!("{{{{random {} {}}}}}", i64::MIN, i64::MAX);
        assert!(bodies(&all, 100).iter().all(|text| text.parse::<i64>().is_ok()));
        assert_eq!(bodies("{{random 5 5}}", 1), ["5"]);
    }

    #[test]
    fn fractions_lie_between_their_bounds() {
        let numbers = bodies("{{float -0.5 1.5 3}}", 1000);
        assert!(
            numbers
                .iter()
                .all(|text| text.split_once('.').unwrap().1.len() == 3)
        );
        let numbers: Vec<f64> = numbers.iter().map(|text| text.parse().unwrap()).collect();
        assert!(numbers.iter().all(|number| (-0.5..=1.5).contains(number)));
        assert!(numbers.iter().any(|number| *number < -0.4) && numbers.iter().any(|number| *number > 1.4));
        assert_eq!(bodies("{{float 2 2}}", 1), ["2.000000"]);
    }

    #[test]
    fn a_timestamp_is_the_time_of_its_request() {
        let now = || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.unwrap().as_millis()
        };
        let before = now();
        let text = bodies("{{timestamp}} {{timestamp ms}}", 1).remove(0);
        let (seconds, ms) = text.split_once(' ').unwrap();
        let (seconds, ms): (u128, u128) = (seconds.parse().unwrap(), ms.parse().unwrap());
        assert!((before..=now()).contains(&ms), "{text}");
        assert!((before / 1000..=now() / 1000).contains(&seconds), "{text}");
    }

    #[test]
    fn strings_of_an_expression_are_escaped_where_they_stand() {
        let parts = parts(
            "/{{regex [ü%]{2}}}/{{regex a b}}",
            "{{regex x{2}}}",
            "{{regex ä{3}}}",
        );
        let template = Template::new(&parts, &grammar());
        let error = template.unwrap_err().to_string();
        assert!(
            error.contains("`{{regex [ü%]{2}}`") && error.contains("only ASCII"),
            "{error}"
        );
        let parts = self::parts(
            "/{{regex ü{2}}}/{{regex a b }}",
            "{{ regex x{2}}}y",
            "{{regex ä{3}}}",
        );
        let template = Template::new(&parts, &grammar()).unwrap();
        assert_eq!(
            render(&template, 0..1, 7),
            ["POST /%C3%BC%C3%BC/a%20b HTTP/1.1\r\nhost: h\r\nx: xxy\r\ncontent-length: 6\r\n\r\näää"]
        );
    }

    #[test]
    fn each_request_takes_a_line_as_its_body() {
        let lines = Arc::new(Lines::parse(b"one\nthree\n").unwrap());
        let bodies = |random, count| {
            let grammar = Grammar {
                bodies: Some(Bodies {
                    lines: lines.clone(),
                    random,
                }),
                ..Grammar::none()
            };
            let template = Template::new(&parts("/", "v", "not this"), &grammar).unwrap();
            let requests = render(&template, 0..count, 7);
            let cut = requests
                .iter()
                .map(|request| request.split_once("content-length: ").unwrap().1.to_owned());
            cut.collect::<Vec<_>>()
        };
        assert_eq!(
            bodies(false, 3),
            ["3\r\n\r\none", "5\r\n\r\nthree", "3\r\n\r\none"]
        );
        let ones = bodies(true, 1000)
            .iter()
            .filter(|request| request.ends_with("one"))
            .count();
        assert!((400..600).contains(&ones), "{ones}");
    }

    #[test]
    fn the_same_seed_gives_the_same_requests() {
        let template = Template::new(&parts("/{{uuid}}", "{{random 1 9}}", "[<id>]"), &grammar()).unwrap();
        assert_eq!(render(&template, 0..50, 3), render(&template, 0..50, 3));
        assert_ne!(render(&template, 0..50, 3), render(&template, 0..50, 4));
    }

    #[test]
    fn what_is_no_placeholder_is_refused_with_where_and_what_is_accepted() {
        for (parts, says) in [
            (
                parts("/a{{conter}}", "", ""),
                "the path, byte 3: `{{conter}}` is not known; accepted are counter, counter FIRST, uuid, random LOW HIGH, float LOW HIGH, regex EXPRESSION, timestamp, timestamp ms, env NAME, csv.id, csv.name, csv.text",
            ),
            (
                parts("/", "{{csv.nome}}", ""),
                "header `x`, byte 1: `{{csv.nome}}` is not known; accepted are counter",
            ),
            (
                parts("/", "", "ab{{counter"),
                "the body, byte 3: `{{` is not followed by `}}` within 256 bytes; write `\\{{` for the braces themselves",
            ),
            (
                parts("/{{counter x}}", "", ""),
                "`{{counter x}}` needs a whole number to begin with, such as {{counter 1000}}",
            ),
            (
                parts("/{{random 1}}", "", ""),
                "needs two whole numbers, the lower one first, such as {{random 1 100}}",
            ),
            (
                parts("/{{random 9 1}}", "", ""),
                "needs two whole numbers, the lower one first",
            ),
            (
                parts("/{{float 2 1}}", "", ""),
                "needs two numbers, the lower one first, and perhaps how many digits",
            ),
            (
                parts("/{{float 0 1 16}}", "", ""),
                "such as {{float 0 1 3}}; at most 15 digits",
            ),
            (
                parts("/{{timestamp us}}", "", ""),
                "is in seconds, or with `ms` in milliseconds",
            ),
            (
                parts("/{{regex}}", "", ""),
                "needs an expression, such as {{regex [a-z]{8}}}",
            ),
            (parts("/{{regex [a-z}}", "", ""), "is not closed"),
            (
                parts("/{{random a b}}", "", ""),
                "needs two whole numbers, the lower one first",
            ),
            (parts("/{{env}}", "", ""), "needs the name of one variable"),
            (
                parts("/{{env NONE}}", "", ""),
                "names the variable `NONE`, which is not set",
            ),
            (
                parts("/", "{{csv.text}}", ""),
                "has a control character in row 1, which cannot stand in a header",
            ),
            (parts("/{{}}", "", ""), "the path, byte 2: `{{}}` is not known"),
            (parts("/a b{{counter}}", "", ""), "the path `/a b` has a space"),
            (
                parts("/", "a\r\nb: {{counter}}", ""),
                "the header `x` has a control character",
            ),
        ] {
            let error = Template::new(&parts, &grammar()).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        let without = Grammar {
            csv: None,
            ..grammar()
        };
        let error = Template::new(&parts("/{{csv.id}}", "", ""), &without)
            .unwrap_err()
            .to_string();
        assert!(error.contains("`{{csv.id}}` needs a CSV file"), "{error}");
        for field in ["Content-Length", "Transfer-Encoding"] {
            let mut framed = parts("/", "", "{{counter}}");
            framed.set_field(field, "5");
            let error = Template::new(&framed, &grammar()).unwrap_err().to_string();
            assert!(
                error.contains(&format!("leave out the header `{field}`")),
                "{error}"
            );
        }
    }

    #[test]
    fn urls_keep_their_placeholders() {
        for (text, url, path) in [
            (
                "http://h:81/a/{{random 1 100}}?x=[<id>]#part",
                "h:81",
                "/a/{{random 1 100}}?x=[<id>]",
            ),
            ("h?x={{uuid}}", "h", "/?x={{uuid}}"),
            ("https://h", "h", "/"),
        ] {
            let split = split_url(text).unwrap();
            assert_eq!(
                (split.authority().as_str(), split.path_and_query.as_str()),
                (url, path)
            );
        }
        assert!(split_url("http:///x").is_err());
    }

    /// A text of which some pieces are placeholders.
    fn text(literals: &'static str) -> impl Strategy<Value = String> {
        let placeholder = prop::sample::select(vec![
            "{{counter}}",
            "{{counter 5}}",
            "{{uuid}}",
            "{{random -5 2000}}",
            "{{float -5 2}}",
            "{{timestamp}}",
            "{{regex (a|[b-d]{2,5}|ü)+x?}}",
            "{{csv.id}}",
            "{{csv.name}}",
            "{{env TOKEN}}",
            "[<id>]",
            "${sequence}",
            "\\{{",
        ]);
        let piece = prop_oneof![
            placeholder.prop_map(str::to_owned),
            literals.prop_map(|text: String| text)
        ];
        prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
    }

    proptest! {
        #[test]
        fn a_rendered_request_parses_and_its_length_is_right(
            path in text("[a-z0-9/?=&%.,\\[\\]$}-]{0,9}"),
            field in text("[ -z|}~]{0,9}"),
            body in text("(?s:[a-z\"}\\[$\r\n ü]{0,9})"),
            method in prop::sample::select(vec!["GET", "POST", "DELETE", "PATCH"]),
            keep_alive: bool,
            seed: u64,
        ) {
            let mut parts = parts(&format!("/{path}"), &field, &body);
            parts.method = method.into();
            parts.keep_alive = keep_alive;
            let template = Template::new(&parts, &grammar()).unwrap();
            for request in render(&template, 0..5, seed) {
                let mut fields = [httparse::EMPTY_HEADER; 16];
                let mut parsed = httparse::Request::new(&mut fields);
                let head = parsed.parse(request.as_bytes()).unwrap();
                prop_assert!(head.is_complete());
                let rest = request.len() - head.unwrap();
                let lengths: Vec<_> = parsed.headers.iter().filter(|field| field.name == "content-length").collect();
                match lengths[..] {
                    [] => prop_assert!(rest == 0 && method != "POST" && method != "PATCH"),
                    [length] => prop_assert_eq!(std::str::from_utf8(length.value).unwrap(), rest.to_string()),
                    _ => prop_assert!(false, "two lengths"),
                }
                prop_assert_eq!(parsed.headers.len(), 2 + lengths.len() + usize::from(!keep_alive));
            }
        }
    }
}
