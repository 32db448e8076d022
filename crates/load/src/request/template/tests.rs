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
