//! `?where=`: children found through indexes.

use forebay_testkit::{Client, Server};
use serde_json::Value;

use super::{OPEN, ask, children::pages, config, put, setup, text};

const INDEXES: &str = r#"
index.by-name = { records = "Open/people", fields = ["last", "first"] }
index.by-age = { records = "Open/people", fields = ["age"] }
index.by-tag = { records = "Open/people", fields = ["tags.*"] }
index.by-city = { records = "Open/people", fields = ["address.city", "age"] }
index.by-zip = { records = "Open/people", fields = ["\"z.i=p\""] }
"#;

const PEOPLE: &str = r#"{
"1":{"last":"Tweed","first":"Rob","age":70,"tags":["m","js"],"address":{"city":"Redhill"},"z.i=p":"7"},
"2":{"last":"Tweed","first":"Ada","age":"70","tags":["js"],"address":{"city":"Redhill"},"z.i=p":7},
"3":{"last":"O'Neil & Söhne","first":"Cid","age":30,"tags":[],"address":{"city":"Bonn"},"z.i=p":"007"},
"4":{"last":"Zed","age":40,"tags":["a","m","z"],"address":{"city":"Redhill"},"z.i=p":true},
"5":{"last":"Zed","first":"Eve","age":null,"tags":"m","z.i=p":null}}"#;

fn people() -> (Server, Client) {
    let server = setup(INDEXES, "").start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/people", PEOPLE);
    (server, client)
}

/// Percent-encodes everything that is not a letter or digit.
fn encoded(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

fn query(conditions: &[&str]) -> String {
    let conditions: Vec<String> = conditions
        .iter()
        .map(|text| format!("where={}", encoded(text)))
        .collect();
    conditions.join("&")
}

#[test]
fn records_are_found_by_their_values() {
    let (_server, mut client) = people();
    for (conditions, expected) in [
        (&["last=Tweed"][..], r#"["2","1"]"#),
        (&["last=\"Tweed\"", "first=Rob"], r#"["1"]"#),
        (&["first=Rob", "last=Tweed"], r#"["1"]"#),
        (&["last=Tweed", "first>Ada"], r#"["1"]"#),
        (&["last=Tweed", "first>=Ada", "first<Rob"], r#"["2"]"#),
        (&["last=O'Neil & Söhne"], r#"["3"]"#),
        (&["last=tweed"], "[]"),
        // A number differs from a text that looks like it, and a range is of one type.
        (&["age=70"], r#"["1"]"#),
        (&["age=\"70\""], r#"["2"]"#),
        (&["age=null"], r#"["5"]"#),
        (&["age>=30"], r#"["3","4","1"]"#),
        (&["age>30"], r#"["4","1"]"#),
        (&["age<70"], r#"["3","4"]"#),
        (&["age<=70", "age>3e1"], r#"["4","1"]"#),
        (&["age>70", "age<30"], "[]"),
        (&["age>\"\""], r#"["2"]"#),
        (&["age>=null"], r#"["5"]"#),
        // Each element of an array.
        (&["tags.*=m"], r#"["1","4"]"#),
        (&["tags.*=js"], r#"["1","2"]"#),
        (&["tags.*>=\"\""], r#"["4","1","2"]"#),
        // A path, and a prefix of two fields.
        (&["address.city=Redhill"], r#"["4","1","2"]"#),
        (&["address.city=Redhill", "age>=40"], r#"["4","1"]"#),
        (&["address.city>B", "address.city<C"], r#"["3"]"#),
        (&["\"z.i=p\"=7"], r#"["2"]"#),
        (&["\"z.i=p\"=\"7\""], r#"["1"]"#),
        (&["\"z.i=p\"=007"], r#"["3"]"#),
        (&["\"z.i=p\"=true"], r#"["4"]"#),
    ] {
        let target = format!("/store/Open/people?{}&keys", query(conditions));
        assert_eq!(text(&mut client, &target), expected, "{conditions:?}");
        let found: Vec<String> = serde_json::from_str(expected).unwrap();
        let reversed: Vec<String> =
            serde_json::from_str(&text(&mut client, &format!("{target}&reverse"))).unwrap();
        if !conditions[0].starts_with("tags") {
            assert!(
                reversed.iter().eq(found.iter().rev()),
                "{conditions:?} {reversed:?}"
            );
        }
    }
    // As a browser's address line and curl send it.
    assert_eq!(
        text(&mut client, "/store/Open/people?where=age>=40&keys"),
        r#"["4","1"]"#
    );
    // Without conditions, everything in the index, in its order.
    assert_eq!(
        text(&mut client, "/store/Open/people?index=by-age&keys"),
        r#"["5","3","4","1","2"]"#
    );
    assert_eq!(
        text(
            &mut client,
            "/store/Open/people?index=by-city&where=address.city=Bonn&depth=1"
        ),
        r#"[{"key":"3","value":{"address":{},"age":30,"first":"Cid","last":"O'Neil & Söhne","tags":[],"z.i=p":"007"}}]"#
    );
    // A write is found at once, and no longer under its old value.
    let answer = ask(
        &mut client,
        "PATCH",
        "/store/Open/people/3",
        &[("content-type", "application/merge-patch+json")],
        br#"{"age":71}"#,
    );
    assert_eq!(answer.status, 204);
    assert_eq!(
        text(&mut client, "/store/Open/people?where=age>70&keys"),
        r#"["3"]"#
    );
    assert_eq!(text(&mut client, "/store/Open/people?where=age=30&keys"), "[]");
    assert_eq!(
        ask(&mut client, "HEAD", "/store/Open/people?where=age>70", &[], b"").status,
        200
    );
    // A search below a missing node finds nothing.
    assert_eq!(
        ask(&mut client, "DELETE", "/store/Open/people", &[], b"").status,
        204
    );
    assert_eq!(text(&mut client, "/store/Open/people?where=age>70"), "[]");
}

#[test]
fn what_no_index_answers_is_refused_with_the_indexes_there_are() {
    let (_server, mut client) = people();
    let all = "the indexes over Open/people are by-age (age), by-tag (tags.*), by-zip (\"z.i=p\"), by-city (address.city, age), by-name (last, first)";
    let making = "an index is made by [store.index] in the configuration or by `forebay store index define`";
    let rule = "they are = on an index's first fields and a range on the next";
    for (target, expected) in [
        (
            "people?where=first=Rob",
            format!("no index answers conditions on first: {rule}; {all}; {making}"),
        ),
        (
            "people?where=last>A&where=first=Rob",
            format!("no index answers conditions on last, first: {rule}; {all}; {making}"),
        ),
        (
            "people?where=tags=m",
            format!("no index answers conditions on tags: {rule}; {all}; {making}"),
        ),
        (
            "people/1?where=x=1",
            format!("no index answers conditions on x: {rule}; there is no index over Open/people/1; {making}"),
        ),
        (
            "people?index=by-size",
            format!("there is no index `by-size` over this node: {all}; {making}"),
        ),
        (
            "people?index=by-age&where=last=Zed",
            format!("index `by-age` does not answer conditions on last: {rule}; {all}"),
        ),
        ("people?where=age=1&where=age=2", "there are two conditions with = on `age`".to_owned()),
        (
            "people?where=age>1&where=age>=2",
            "there are two bounds on one side of a range, the second on `age`".to_owned(),
        ),
        (
            "people?where=age>1&where=last<Z",
            "a range has both its bounds on one field; the other one is on `last`".to_owned(),
        ),
        (
            "people?where=age>1&where=age<Z",
            "the bounds of a range are of one kind, both numbers or both texts; on `age`".to_owned(),
        ),
        (
            "people?where=age",
            "condition \"age\": `age` is followed by =, <, <=, > or >=, and a value".to_owned(),
        ),
        (
            "people?where=age!=1",
            "condition \"age!=1\": `age` is followed by =, <, <=, > or >=, and a value".to_owned(),
        ),
        (
            "people?where==1",
            "condition \"=1\": a name is missing (an empty one is written `\"\"`) at byte 0".to_owned(),
        ),
        (
            "people?where=age=",
            "condition \"age=\": a value is missing (an empty text is written `\"\"`)".to_owned(),
        ),
        (
            "people?where=age=[1]",
            "condition \"age=[1]\": objects and arrays are in no index (a text that begins so is written between quotes)".to_owned(),
        ),
        (
            "people?where=age=%22x",
            "condition \"age=\\\"x\": a value that begins with `\"` is one JSON string".to_owned(),
        ),
        (
            "people?where=age=1&from=1",
            "query parameter \"from\": it is of children by their names; `where` and `index` find them by their values".to_owned(),
        ),
        (
            &format!("people?index=by-age&after={}", "00".repeat(1901)),
            "query parameter \"after\": it is longer than any entry of an index".to_owned(),
        ),
    ] {
        let answer = client.get(&format!("/store/Open/{target}"));
        assert_eq!((answer.status, answer.detail()), (400, expected), "{target}");
    }
    // An invented position in an index is valid all the same.
    for after in ["", "00", "ff", "20", "fffefdfc", "2000000000"] {
        for rest in [
            "index=by-tag",
            "where=tags.*>a",
            "where=age<50&reverse",
            "index=by-city&reverse",
        ] {
            let answer = client.get(&format!("/store/Open/people?{rest}&after={after}"));
            assert_eq!(answer.status, 200, "{rest} {after}: {answer:?}");
        }
    }
    // A value longer than any entry is in no index.
    let long = "x".repeat(5000);
    assert_eq!(
        text(&mut client, &format!("/store/Open/people?where=age={long}")),
        "[]"
    );
    assert_eq!(
        text(
            &mut client,
            &format!("/store/Open/people?where=age>{long}&reverse")
        ),
        "[]"
    );
}

#[test]
fn who_may_not_read_may_not_search() {
    let indexes = "index.a = { records = \"Kept\", fields = [\"a\"] }";
    let rules = format!("{OPEN}Kept = {{ read = \"token:T\", write = \"public\" }}\n");
    let server = forebay_testkit::Setup::new(&config(indexes, &rules, ""))
        .env("T", "secret")
        .start();
    let mut client = server.connect();
    put(&mut client, "/store/Kept/1", r#"{"a":1}"#);
    assert_eq!(client.get("/store/Kept?where=a=1").status, 401);
    // The response does not reveal which indexes there are.
    let other = client.get("/store/Open?where=a=1");
    assert!(
        other.detail().contains("there is no index over Open;"),
        "{}",
        other.detail()
    );
    let token = [("authorization", "Bearer secret")];
    let answer = ask(&mut client, "GET", "/store/Kept?where=a=1&keys", &token, b"");
    assert_eq!(answer.text(), "[\"1\"]");
}

/// Records with one to four of 40 tags each, in an order that has nothing to do with their names.
fn many(client: &mut Client, count: usize) -> Vec<(String, Vec<String>)> {
    let all: Vec<(String, Vec<String>)> = (0..count)
        .map(|at| {
            let tags = (0..=at % 4)
                .map(|step| format!("t{:02}", (at * 7 + step * 13) % 40))
                .collect();
            (format!("r{at}"), tags)
        })
        .collect();
    let members: Vec<String> = all
        .iter()
        .map(|(name, tags)| format!("\"{name}\":{}", serde_json::json!({ "tags": tags })))
        .collect();
    put(
        client,
        "/store/Open/people",
        &format!("{{{}}}", members.join(",")),
    );
    all
}

/// The records with a tag from `from` to `to`, each once, in the order in which a walk over the tags finds them.
fn expected(all: &[(String, Vec<String>)], from: &str, to: &str, reverse: bool) -> Vec<String> {
    let mut entries: Vec<(&str, &str)> = all
        .iter()
        .flat_map(|(name, tags)| tags.iter().map(move |tag| (tag.as_str(), name.as_str())))
        .filter(|(tag, _)| (from..=to).contains(tag))
        .collect();
    entries.sort_unstable();
    if reverse {
        entries.reverse();
    }
    let mut names: Vec<String> = Vec::new();
    for (_, name) in entries {
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn pages_and_lines_bring_each_record_once() {
    let server = setup(INDEXES, "").start();
    let mut client = server.connect();
    let all = many(&mut client, 600);
    for (from, to) in [("t00", "t39"), ("t07", "t23"), ("t11", "t11")] {
        for reverse in [false, true] {
            let expected = expected(&all, from, to, reverse);
            let flag = if reverse { "&reverse" } else { "" };
            let target = format!("/store/Open/people?where=tags.*>={from}&where=tags.*<={to}{flag}");
            for limit in [1, 7, 100] {
                let pages = pages(&mut client, &format!("{target}&keys&limit={limit}"));
                let read: Vec<Vec<String>> = pages
                    .iter()
                    .map(|page| serde_json::from_str(page).unwrap())
                    .collect();
                assert_eq!(read.concat(), expected, "{target} {limit}");
                assert_eq!(read.len(), expected.len().div_ceil(limit), "{target} {limit}");
            }
            let lines = [("accept", "application/x-ndjson")];
            let answer = ask(&mut client, "GET", &target, &lines, b"");
            let read: Vec<Value> = answer
                .text()
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let names: Vec<&str> = read.iter().map(|line| line["key"].as_str().unwrap()).collect();
            assert_eq!(names, expected, "{target}");
            assert!(read.iter().all(|line| line["value"]["tags"].is_array()));
            // The last line of a limited response leads to the next.
            let first = ask(&mut client, "GET", &format!("{target}&keys&limit=5"), &lines, b"");
            let (head, last) = first.text().trim_end().rsplit_once('\n').unwrap();
            let next: Value = serde_json::from_str(last).unwrap();
            let next = format!("/store/Open/people{}", next["next"].as_str().unwrap());
            let second = ask(&mut client, "GET", &next, &[], b"");
            let names: Vec<String> = head
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            let more: Vec<String> = serde_json::from_str(second.text()).unwrap();
            assert_eq!([names, more].concat(), expected[..10], "{target}");
        }
    }
}

#[test]
fn a_search_through_very_many_entries_stays_small() {
    const COUNT: usize = 20_000;
    let indexes = "index.by-tag = { records = \"Open/people\", fields = [\"t.*\"] }";
    let server = setup(indexes, "").server("body_bytes_max = \"64MiB\"").start();
    let mut client = server.connect();
    // Each record has six entries, and all of them lie between those of others.
    let members: Vec<String> = (0..COUNT)
        .map(|at| format!("\"the rather long name of record {at}\":{{\"t\":[1,2,3,4,5,6]}}"))
        .collect();
    put(
        &mut client,
        "/store/Open/people",
        &format!("{{{}}}", members.join(",")),
    );
    let lines = [("accept", "application/x-ndjson")];
    let before = server.process().rss_bytes();
    let answer = ask(
        &mut client,
        "GET",
        "/store/Open/people?where=t.*>=1&keys",
        &lines,
        b"",
    );
    assert_eq!(answer.text().lines().count(), COUNT);
    let grown = server.process().rss_bytes().saturating_sub(before);
    assert!(grown < 48 << 20, "{grown} bytes for one answer");
    // After the last record there are 100000 entries of records that were returned before: a page that finds nothing new among them ends.
    let target = format!("/store/Open/people?where=t.*>=1&keys&limit={}", COUNT / 2);
    let pages = pages(&mut client, &target);
    let count: usize = pages
        .iter()
        .map(|page| serde_json::from_str::<Vec<String>>(page).unwrap().len())
        .sum();
    assert_eq!(count, COUNT);
    assert!(pages.len() > 3, "{} pages", pages.len());
}
