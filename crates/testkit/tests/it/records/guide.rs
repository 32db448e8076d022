//! The pages on records and TQL: every exchange that they show, in its order.

use forebay_testkit::{Setup, blocks, postgres::Schema};

use super::ask;
use crate::store::guide::exchanges_go_as_written;

#[test]
fn every_exchange_of_the_guide_goes_as_it_says() {
    exchanges_go_as_written("guide/records.md", 10, str::to_owned);
}

#[test]
fn every_exchange_of_the_guide_goes_as_it_says_with_a_store_in_a_database() {
    let schema = Schema::new();
    exchanges_go_as_written("guide/records.md", 10, |config| {
        let url = schema.url();
        config.replace("path = \"data\"", &format!("url = \"{url}\""))
    });
}

#[test]
fn every_example_of_the_reference_goes_as_it_says() {
    exchanges_go_as_written("reference/tql.md", 25, str::to_owned);
}

#[test]
fn the_controller_of_the_guide_does_what_it_says() {
    let guide = include_str!("../../../../../docs/guide/records.md");
    let server = Setup::new(
        "[store]\n[script.c]\nhandler = \"c.mjs\"\nallow = { store = [\"Article\"] }\n[[route]]\npath = \"/*\"\nscript = \"c\"\n",
    )
    .file("c.mjs", blocks(guide, "js")[1])
    .start();
    let mut client = server.connect();
    for (method, path, body, status, text) in [
        ("PUT", "/v1/Article", "{}", 422, "an article has a title"),
        (
            "PUT",
            "/v1/Article",
            r#"{"title":"Two words"}"#,
            201,
            r#"{"code":0,"ref":1}"#,
        ),
        (
            "GET",
            "/v1/Article/1",
            "",
            200,
            r#"{"code":0,"results":[{"id":1,"data":{"kind":"Article","title":"Two words","words":2}}]}"#,
        ),
        ("GET", "/v1/Article/1/path", "", 200, r#"["1","path"]"#),
        ("DELETE", "/v1/Article/1", "", 404, "there is nothing here"),
    ] {
        let answer = ask(&mut client, method, path, &[], body.as_bytes());
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert!(answer.text().contains(text), "{method} {path}: {answer:?}");
    }
}
