//! What the benchmarks' verifier asks of an answer, as far as one can see without the database.

use serde_json::{Map, Value};

use super::Test;
use crate::response::{Kept, KnownHead, Read, Reader};

/// What is asked for as a number of rows, and how many must come.
pub(super) const COUNTS: [(&str, usize); 6] =
    [("2", 2), ("0", 1), ("foo", 1), ("", 1), ("501", 500), ("20", 20)];

const GREETING: &str = "Hello, World!";
/// Ids and numbers are from 1 to this.
const NUMBER_MAX: u64 = 10_000;
/// The row that each request adds to the page, and how many there are with it.
const ADDED_FORTUNE: &str = "Additional fortune added at request time.";
const FORTUNES: usize = 13;
/// Most headers that are read.
const FIELDS_MAX: usize = 100;
/// Longest part of an answer that is shown.
const SHOWN_MAX: usize = 60;

/// An answer taken apart.
struct Answer {
    status: u16,
    fields: Vec<(String, String)>,
    body: Vec<u8>,
}

/// The status of an answer, if it is one.
pub(super) fn status(bytes: &[u8]) -> Option<u16> {
    read(bytes).map(|answer| answer.status)
}

/// What is wrong with the answer to a probe of a test.
pub(super) fn problem(test: Test, probe: &str, bytes: &[u8]) -> Result<(), String> {
    let answer = read(bytes).ok_or("it is no answer of HTTP")?;
    if answer.status != 200 {
        return Err(format!("found status {}, expected 200", answer.status));
    }
    for name in ["server", "date", "content-type"] {
        answer.field(name)?;
    }
    if answer.field("content-length").is_err() && answer.field("transfer-encoding").is_err() {
        return Err("it has neither `content-length` nor `transfer-encoding`".to_owned());
    }
    match test {
        Test::Json => {
            let object = object(&answer.json()?)?.clone();
            match object.get("message").and_then(Value::as_str) {
                Some(GREETING) if object.len() == 1 => Ok(()),
                _ => Err(format!(
                    "found {}, expected {{\"message\":\"{GREETING}\"}}",
                    answer.shown()
                )),
            }
        }
        Test::Plaintext => {
            answer.is_of("text/plain")?;
            match answer.text()? {
                GREETING => Ok(()),
                _ => Err(format!("found {}, expected {GREETING}", answer.shown())),
            }
        }
        Test::Db => world(&answer.json()?),
        Test::Queries | Test::Queries2 | Test::Updates | Test::CachedQueries => {
            worlds(&answer.json()?, probe)
        }
        Test::Fortunes => {
            answer.is_of("text/html")?;
            fortunes(answer.text()?)
        }
    }
}

fn read(bytes: &[u8]) -> Option<Answer> {
    let mut reader = Reader::new(true);
    let whole = reader.read(bytes, false, &mut KnownHead::default()).ok()?;
    if let Read::Partial = whole {
        reader.end()?;
    }
    let Kept { head, body } = reader.kept?;
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut response = httparse::Response::new(&mut fields);
    response.parse(&head).ok()?;
    let field = |field: &httparse::Header<'_>| {
        let value = String::from_utf8_lossy(field.value).into_owned();
        (field.name.to_ascii_lowercase(), value)
    };
    Some(Answer {
        status: response.code?,
        fields: response.headers.iter().map(field).collect(),
        body,
    })
}

impl Answer {
    fn field(&self, name: &str) -> Result<&str, String> {
        let found = self.fields.iter().find(|(known, _)| known == name);
        let value = found.map(|(_, value)| value.as_str());
        value.ok_or_else(|| format!("it has no header `{name}`"))
    }

    /// The media type, with UTF-8 as the only charset that may be named.
    fn is_of(&self, expected: &str) -> Result<(), String> {
        let written = self.field("content-type")?;
        let lower = written.to_ascii_lowercase();
        let (kind, parameters) = lower.split_once(';').unwrap_or((&lower, "charset=utf-8"));
        let is_utf8 = parameters.trim().replace('"', "") == "charset=utf-8";
        if kind.trim() == expected && is_utf8 {
            return Ok(());
        }
        Err(format!("found content-type {written:?}, expected {expected}"))
    }

    fn text(&self) -> Result<&str, String> {
        std::str::from_utf8(&self.body).map_err(|_| "it is not UTF-8".to_owned())
    }

    fn json(&self) -> Result<Value, String> {
        self.is_of("application/json")?;
        serde_json::from_slice(&self.body).map_err(|_| format!("found {}, expected JSON", self.shown()))
    }

    fn shown(&self) -> String {
        shown(&String::from_utf8_lossy(&self.body))
    }
}

fn shown(text: &str) -> String {
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn object(value: &Value) -> Result<&Map<String, Value>, String> {
    let object = value.as_object();
    object.ok_or_else(|| format!("found {}, expected an object", shown(&value.to_string())))
}

/// A row of the table `world`.
fn world(value: &Value) -> Result<(), String> {
    let row = object(value)?;
    for name in ["id", "randomNumber"] {
        let number = row.get(name).and_then(Value::as_u64);
        if row.len() != 2 || !number.is_some_and(|number| (1..=NUMBER_MAX).contains(&number)) {
            return Err(format!(
                "found {}, expected `id` and `randomNumber`, each from 1 to {NUMBER_MAX}",
                shown(&value.to_string())
            ));
        }
    }
    Ok(())
}

/// So many of them as the probe asks for.
fn worlds(value: &Value, probe: &str) -> Result<(), String> {
    let asked = probe.rsplit('=').next().unwrap_or_default();
    let due = COUNTS.iter().find(|(known, _)| *known == asked);
    let due = due.map_or(1, |(_, due)| *due);
    match value.as_array() {
        Some(rows) if rows.len() == due => rows.iter().try_for_each(world),
        Some(rows) => Err(format!("found {} rows, expected {due}", rows.len())),
        None => Err(format!("found {}, expected an array", shown(&value.to_string()))),
    }
}

/// The page: a table of ids and messages, sorted by message, every one escaped.
fn fortunes(page: &str) -> Result<(), String> {
    if !page
        .trim_start()
        .to_ascii_lowercase()
        .starts_with("<!doctype html>")
    {
        return Err(format!("found {}, expected <!doctype html>", shown(page)));
    }
    let mut messages = Vec::new();
    let mut cells = page.split("<td").skip(1).map(cell);
    while let (Some(id), Some(message)) = (cells.next(), cells.next()) {
        let (id, message) = (id?, message?);
        if id.parse::<u32>().is_err() {
            return Err(format!("found {id:?} as an id, expected a number"));
        }
        messages.push(message);
    }
    if messages.len() != FORTUNES {
        return Err(format!("found {} rows, expected {FORTUNES}", messages.len()));
    }
    if !messages.iter().any(|message| message == ADDED_FORTUNE) {
        return Err(format!("no row says {ADDED_FORTUNE:?}"));
    }
    match messages.windows(2).find(|pair| pair[0] > pair[1]) {
        Some(pair) => Err(format!(
            "{:?} stands before {:?}: rows are sorted by message",
            pair[0], pair[1]
        )),
        None => Ok(()),
    }
}

/// The text of a cell, from behind `<td`.
fn cell(rest: &str) -> Result<String, String> {
    let (_, inside) = rest.split_once('>').unwrap_or_default();
    let (text, _) = inside.split_once("</td").ok_or("a cell has no end")?;
    if text.contains('<') {
        return Err(format!("{:?} is not escaped", shown(text)));
    }
    Ok(plain(text))
}

/// A text without references to characters; those that messages of the table have.
fn plain(text: &str) -> String {
    const REFERENCES: [(&[&str], &str); 5] = [
        (&["&lt;", "&#60;", "&#x3c;", "&#x3C;"], "<"),
        (&["&gt;", "&#62;", "&#x3e;", "&#x3E;"], ">"),
        (&["&quot;", "&#34;", "&#x22;"], "\""),
        (&["&#39;", "&apos;", "&#x27;", "&#039;"], "'"),
        (&["&amp;", "&#38;", "&#x26;"], "&"),
    ];
    let mut plain = text.to_owned();
    for (written, meant) in REFERENCES {
        for reference in written {
            plain = plain.replace(reference, meant);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(kind: &str, body: &str) -> String {
        let length = body.len();
        format!(
            "HTTP/1.1 200 OK\r\nserver: a\r\ndate: b\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    fn told(test: Test, probe: &str, kind: &str, body: &str) -> Option<String> {
        problem(test, probe, answer(kind, body).as_bytes()).err()
    }

    const JSON: &str = "application/json";

    fn page(rows: &[&str]) -> String {
        let rows: Vec<String> = rows
            .iter()
            .map(|message| format!("<tr><td>1</td><td>{message}</td></tr>"))
            .collect();
        format!("<!DOCTYPE html><table>{}</table>", rows.concat())
    }

    #[test]
    fn right_answers_have_no_problem() {
        let rows = "[{\"id\":1,\"randomNumber\":10000},{\"id\":10000,\"randomNumber\":1}]";
        let mut messages = vec!["&lt;script&gt;", ADDED_FORTUNE];
        messages.extend(["フ"; 11]);
        for (test, probe, kind, body) in [
            (Test::Json, "/json", JSON, "{ \"message\": \"Hello, World!\" }"),
            (
                Test::Plaintext,
                "/plaintext",
                "text/plain; charset=UTF-8",
                GREETING,
            ),
            (Test::Db, "/db", JSON, "{\"randomNumber\":4,\"id\":3}"),
            (Test::Queries, "/queries?queries=2", JSON, rows),
            (Test::CachedQueries, "/cached-queries?count=2", JSON, rows),
            (
                Test::Fortunes,
                "/fortunes",
                "text/html; charset=utf-8",
                &page(&messages),
            ),
        ] {
            assert_eq!(told(test, probe, kind, body), None, "{test:?}");
        }
    }

    #[test]
    fn each_wrong_answer_says_what_is_wrong() {
        let unsorted = [&[ADDED_FORTUNE, "B", "A"][..], &["C"; 10]].concat();
        let few = page(&[ADDED_FORTUNE]);
        let raw = page(&["<script>alert()</script>"]);
        for (test, probe, kind, body, problem) in [
            (
                Test::Json,
                "",
                JSON,
                "{\"message\":\"Hi\"}",
                "found {\"message\":\"Hi\"}, expected {\"message\":\"Hello, World!\"}",
            ),
            (
                Test::Json,
                "",
                "text/plain",
                "{}",
                "found content-type \"text/plain\", expected application/json",
            ),
            (Test::Json, "", JSON, "{,", "found {,, expected JSON"),
            (
                Test::Plaintext,
                "",
                "text/plain; charset=latin1",
                GREETING,
                "found content-type \"text/plain; charset=latin1\", expected text/plain",
            ),
            (
                Test::Plaintext,
                "",
                "text/plain",
                "Hello",
                "found Hello, expected Hello, World!",
            ),
            (Test::Db, "", JSON, "[]", "found [], expected an object"),
            (
                Test::Db,
                "",
                JSON,
                "{\"id\":1,\"randomNumber\":10001}",
                "found {\"id\":1,\"randomNumber\":10001}, expected `id` and `randomNumber`, each from 1 to 10000",
            ),
            (
                Test::Db,
                "",
                JSON,
                "{\"id\":\"1\",\"randomNumber\":1}",
                "found {\"id\":\"1\",\"randomNumber\":1}, expected `id` and `randomNumber`, each from 1 to 10000",
            ),
            (
                Test::Queries,
                "/queries?queries=2",
                JSON,
                "[]",
                "found 0 rows, expected 2",
            ),
            (
                Test::Updates,
                "/updates?queries=501",
                JSON,
                "[{}]",
                "found 1 rows, expected 500",
            ),
            (
                Test::Queries,
                "/queries?queries=",
                JSON,
                "{\"id\":1}",
                "found {\"id\":1}, expected an array",
            ),
            (
                Test::Fortunes,
                "",
                "text/html",
                "<table>",
                "found <table>, expected <!doctype html>",
            ),
            (Test::Fortunes, "", "text/html", &few, "found 1 rows, expected 13"),
            (
                Test::Fortunes,
                "",
                "text/html",
                &raw,
                "\"<script>alert()</script>\" is not escaped",
            ),
            (
                Test::Fortunes,
                "",
                "text/html",
                &page(&["A"; 13]),
                "no row says \"Additional fortune added at request time.\"",
            ),
            (
                Test::Fortunes,
                "",
                "text/html",
                &page(&unsorted),
                "\"B\" stands before \"A\": rows are sorted by message",
            ),
        ] {
            assert_eq!(
                told(test, probe, kind, body).as_deref(),
                Some(problem),
                "{test:?}"
            );
        }
    }

    #[test]
    fn an_answer_without_what_all_have_is_wrong() {
        let whole = answer("text/plain", GREETING);
        for (from, to, problem) in [
            ("200 OK", "500 No", "found status 500, expected 200"),
            ("server: a\r\n", "", "it has no header `server`"),
            ("date: b\r\n", "", "it has no header `date`"),
            (
                "content-length: 13\r\n",
                "",
                "it has neither `content-length` nor `transfer-encoding`",
            ),
            ("HTTP/1.1", "HTTQ", "it is no answer of HTTP"),
        ] {
            let broken = whole.replace(from, to);
            let told = super::problem(Test::Plaintext, "/plaintext", broken.as_bytes());
            assert_eq!(told, Err(problem.to_owned()));
        }
    }
}
