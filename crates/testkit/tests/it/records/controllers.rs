//! Controllers of records: the same file as a script, in pools, and over standard input and output.

use forebay_testkit::{Client, Response, Setup, wait_until};

const CONTROLLERS: &str = include_str!("controllers.mjs");

/// A place in which controllers run.
struct Place {
    name: &'static str,
    /// The route's target `c` as a section of the configuration, and its keys.
    section: &'static str,
    keys: &'static str,
    /// Whether it has no store of its own, and calls the server.
    asks: bool,
}

const fn place(name: &'static str, section: &'static str, keys: &'static str) -> Place {
    let asks = false;
    Place {
        name,
        section,
        keys,
        asks,
    }
}

const fn asking(name: &'static str, keys: &'static str) -> Place {
    let asks = true;
    Place {
        name,
        section: "pool",
        keys,
        asks,
    }
}

const NODE: Place = place("pool of Node", "pool", "runtime = \"node\"");
/// On I/O threads, reads that `rest()` declares are answered without a call.
const SCRIPT: Place = place("script", "script", "allow = { store = [\"*\"] }\non = \"io\"");
const OTHERS: [Place; 8] = [
    SCRIPT,
    place("pool of Bun", "pool", "runtime = \"bun\""),
    place("frames", "pool", "link = \"stdio\""),
    place("lines of JSON", "pool", "protocol = \"jsonl\""),
    place(WABUR, "pool", "protocol = \"wabur\""),
    asking("lines of JSON, no store", "protocol = \"jsonl\""),
    asking(
        "lines of JSON in Bun, no store",
        "runtime = \"bun\"\nprotocol = \"jsonl\"",
    ),
    asking(WABUR, "protocol = \"wabur\""),
];
const WABUR: &str = "messages of WABuR";
/// Makes a process one that was given no store.
const NO_STORE: &str = "delete process.env.FOREBAY_STORE;\n";

/// A request: method, target, a field, body. `TAG` is the tag of the last response with one.
type Exchange = (&'static str, &'static str, &'static str, &'static str);

const REQUESTS: &[Exchange] = &[
    (
        "PUT",
        "/v1/Article",
        "",
        r#"{"kind":"Article","title":"Sample","num":1.50}"#,
    ),
    ("PUT", "/v1/Article?title=Sample", "", r#"{"title":"Sample"}"#),
    (
        "PUT",
        "/v1/Article?title=Second",
        "",
        r#"{"title":"Second","num":12345678901234567890123}"#,
    ),
    ("PUT", "/v1/Article", "", "{"),
    ("PUT", "/v1/Article", "", "[]"),
    ("PUT", "/v1/Article", "", r#"{"kind":"Entry"}"#),
    ("PUT", "/v1/Article/7", "", "{}"),
    ("GET", "/v1/Article/1", "", ""),
    ("HEAD", "/v1/Article/1", "", ""),
    ("GET", "/v1/Article/2", "", ""),
    ("GET", "/v1/Article/9", "", ""),
    ("GET", "/v1/Note/1", "", ""),
    ("GET", "/v1/Article/18446744073709551616", "", ""),
    ("GET", "/v1/Article", "", ""),
    ("HEAD", "/v1/Article/list?Title=title", "", ""),
    ("GET", "/v1/Article/list?Title=title&Much=num", "", ""),
    ("GET", "/v1/Article?num=1.5", "", ""),
    ("GET", "/v1/Article?a..b=1", "", ""),
    ("GET", "/v1/Nothing/1", "", ""),
    ("POST", "/v1/Article/1", "", r#"{"title":"New","list":[1,2.0]}"#),
    ("POST", "/v1/Article?title=Second", "", r#"{"title":"Newer"}"#),
    ("POST", "/v1/Article", "", "{}"),
    ("POST", "/v1/Article/9", "", "{}"),
    ("POST", "/v1/Note/1", "", "{}"),
    ("PATCH", "/v1/Article/1", "", r#"{"list":null,"stars":5.0}"#),
    ("PATCH", "/v1/Article/1", "", r#"{"kind":"Note"}"#),
    ("PATCH", "/v1/Article/1", "", "[]"),
    ("PATCH", "/v1/Article/9", "", "{}"),
    ("PATCH", "/v1/Note/1", "", "{}"),
    ("PATCH", "/v1/Article", "", "{}"),
    ("GET", "/v1/Article/1", "", ""),
    ("GET", "/v1/Article/1", "if-none-match: W/TAG", ""),
    ("GET", "/v1/Article/1", "if-match: \"x\"", ""),
    ("POST", "/v1/Article/1", "if-match: \"x\"", "{}"),
    ("POST", "/v1/Article/9", "if-match: \"x\"", "{}"),
    ("PATCH", "/v1/Article/1", "if-match: TAG", r#"{"stars":4}"#),
    ("PATCH", "/v1/Article/1", "if-match: TAG", r#"{"stars":3}"#),
    ("DELETE", "/v1/Article/1", "if-match: TAG", ""),
    ("DELETE", "/v1/Article/1", "if-none-match: *", ""),
    ("REPORT", "/v1/Article/1", "", ""),
    ("PUT", "/v1/Note", "", "{}"),
    ("PUT", "/v1/Note", "", r#"{"text":"four"}"#),
    ("GET", "/v1/Note/3", "", ""),
    ("GET", "/v1/Note/list?A=b", "", ""),
    ("GET", "/v1/Note/3/more/a%2Fb", "", ""),
    ("REPORT", "/v1/Note", "", ""),
    ("DELETE", "/v1/Note/3", "", ""),
    ("DELETE", "/v1/Article/1", "", ""),
    ("DELETE", "/v1/Article/1", "", ""),
    (
        "PUT",
        "/compat/Article",
        "",
        r#"{"kind":"Article","title":"Third"}"#,
    ),
    (
        "PUT",
        "/compat/Article?title=Third",
        "",
        r#"{"kind":"Article","title":"Third"}"#,
    ),
    ("GET", "/compat/Article/4", "", ""),
    ("GET", "/compat/Article/99", "", ""),
    ("GET", "/compat/Note/4", "", ""),
    (
        "POST",
        "/compat/Article/4",
        "",
        r#"{"kind":"Article","title":"Fourth"}"#,
    ),
    ("POST", "/compat/Article/99", "", r#"{"kind":"Article"}"#),
    ("POST", "/compat/Article", "", r#"{"kind":"Article"}"#),
    ("DELETE", "/compat/Note/4", "", ""),
    ("DELETE", "/compat/Article?title=Fourth", "", ""),
    ("DELETE", "/compat/Article", "", ""),
    ("GET", "/compat/Article", "", ""),
    ("GET", "/compat/Nothing", "", ""),
    ("PUT", "/v1/Memo", "", r#"{"text":"five"}"#),
    ("GET", "/v1/Memo/5", "", ""),
    ("GET", "/v1/Memo/5?typed=1", "", ""),
];

fn ask(client: &mut Client, (method, target, field, body): Exchange, tag: &str) -> Response {
    let field = field.replace("TAG", tag);
    let separator = if field.is_empty() { "" } else { "\r\n" };
    let fields = format!("x-request-id: the-same\r\ncontent-type: application/json\r\n{field}{separator}");
    client.ask(method, target, &fields, body)
}

/// The responses of a place to the requests that `takes` selects.
fn answers(place: &Place, takes: impl Fn(&Exchange) -> bool) -> Vec<String> {
    let Place {
        section, keys, asks, ..
    } = place;
    let server = Setup::new(&format!(
        "[store]\n[{section}.c]\nhandler = \"c.mjs\"\n{keys}\n[[route]]\npath = \"/*\"\n{section} = \"c\"\n"
    ))
    .file(
        "c.mjs",
        format!("{CONTROLLERS}{}", if *asks { NO_STORE } else { "" }),
    )
    .start();
    wait_until("the controllers to answer", || {
        server.get("/v1/Article").status == 200
    });
    let mut client = server.connect();
    let mut tag = String::new();
    let mut lines = Vec::new();
    for asked in REQUESTS.iter().filter(|asked| takes(asked)) {
        let answer = ask(&mut client, *asked, &tag);
        if let Some(found) = answer.header("etag") {
            found.clone_into(&mut tag);
        }
        let mut headers: Vec<String> = answer
            .headers
            .iter()
            .filter(|(name, _)| name != "date")
            .map(|(name, value)| format!("{name}: {value}"))
            .collect();
        headers.sort();
        let (method, target, field, _) = asked;
        let (status, text) = (answer.status, answer.text());
        lines.push(format!(
            "{method} {target} {field} -> {status} {headers:?} {text}"
        ));
    }
    lines
}

#[test]
fn controllers_answer_alike_wherever_they_run() {
    for place in &OTHERS {
        // Messages of WABuR have no request fields, no HEAD, and only JSON bodies.
        let takes = |(method, _, field, body): &Exchange| {
            place.name != WABUR || (field.is_empty() && *method != "HEAD" && *body != "{")
        };
        let expected = answers(&NODE, takes);
        let found = answers(place, takes);
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "{}, asks: {}", place.name, place.asks);
        }
        assert_eq!(found.len(), expected.len());
    }
}

#[test]
fn the_answers_are_those_of_the_reference_and_say_what_has_happened() {
    let lines = answers(&SCRIPT, |_| true);
    for (at, (start, end)) in [
        (0, (" -> 201 ", r#"{"code":0,"ref":1}"#)),
        (1, (" -> 409 ", "")),
        (
            7,
            (
                " -> 200 ",
                r#"{"code":0,"results":[{"id":1,"data":{"kind":"Article","num":1.50,"title":"Sample"}}]}"#,
            ),
        ),
        (
            9,
            (
                " -> 200 ",
                r#"{"code":0,"results":[{"id":2,"data":{"kind":"Article","num":12345678901234567890123,"title":"Second"}}]}"#,
            ),
        ),
        (31, (" -> 304 ", "")),
        (32, (" -> 412 ", "")),
        (36, (" -> 412 ", "")),
        (44, (" -> 200 ", r#"{"handled":"GET","path":["3","more","a/b"]}"#)),
        (46, (" -> 200 ", r#"{"handled":"DELETE","path":["3"]}"#)),
        (
            50,
            (
                " -> 500 ",
                r#"{"code":-1,"error":"WAB::Error: error on Article create. Already exists."}"#,
            ),
        ),
        (52, (" -> 200 ", r#"{"code":0,"results":[]}"#)),
        (
            56,
            (
                " -> 500 ",
                r#"{"code":-1,"error":"WAB::Error: update on all Article not allowed."}"#,
            ),
        ),
    ] {
        let line = &lines[at];
        assert!(line.contains(start) && line.ends_with(end), "{at}: {line}");
    }
    let body = r#"{"code":0,"results":[{"id":5,"data":{"kind":"Memo","text":"five"}}]}"#;
    let [.., with_field, typed] = &lines[..] else {
        panic!("{lines:?}")
    };
    for (line, field) in [
        (with_field, "x-memo: yes"),
        (typed, "content-type: application/x-memo"),
    ] {
        assert!(
            line.contains(field) && line.contains("etag: ") && line.ends_with(body),
            "{line}"
        );
    }
}
