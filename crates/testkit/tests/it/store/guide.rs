//! `docs/guide/store.md`: every exchange that it shows, in order.

use std::{fs, path::Path};

use forebay_testkit::{Setup, blocks, postgres::Schema};

use super::ask;

/// A request or a response as the guide writes it: a first line, optional fields and an empty line, a body.
fn parts(text: &str) -> (&str, Vec<(&str, &str)>, &str) {
    let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
    let Some((fields, body)) = rest.split_once("\n\n") else {
        // Fields alone end without an empty line.
        let is_field = |line: &str| {
            line.split_once(": ")
                .is_some_and(|(name, _)| !name.contains(['"', '{', '[']))
        };
        if !rest.is_empty() && rest.lines().all(is_field) {
            return (first, fields_of(rest), "");
        }
        return (first, Vec::new(), rest);
    };
    (first, fields_of(fields), body)
}

fn fields_of(text: &str) -> Vec<(&str, &str)> {
    text.lines().filter_map(|line| line.split_once(": ")).collect()
}

#[test]
fn every_exchange_of_the_guide_goes_as_it_says() {
    exchanges_go_as_written("guide/store.md", 10, str::to_owned);
}

#[test]
fn every_exchange_of_the_guide_goes_as_it_says_with_a_store_in_a_database() {
    let schema = Schema::new();
    exchanges_go_as_written("guide/store.md", 10, |config| {
        let in_database = config.replace("path = \"data\"", &format!("url = \"{}\"", schema.url()));
        assert_ne!(config, in_database);
        in_database
    });
}

/// Starts a server with the first configuration of a page of the documentation, changed, and has every exchange with it that the page shows, in
/// its order; there are more than `least`.
pub(crate) fn exchanges_go_as_written(page: &str, least: usize, change: impl FnOnce(&str) -> String) {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(page);
    let guide = fs::read_to_string(guide).expect("the page can be read");
    let server = Setup::new(&change(blocks(&guide, "toml")[0])).start();
    let mut client = server.connect();
    let exchanges = blocks(&guide, "http");
    assert!(exchanges.len() > least, "the guide shows how it goes");
    for exchange in exchanges {
        let (request, expected) = exchange
            .trim_end()
            .split_once("\n---\n")
            .expect("a line of three dashes parts request and answer");
        let (line, fields, body) = parts(request);
        let (method, target) = line.split_once(' ').expect("a request has a method and a target");
        let answer = ask(&mut client, method, target, &fields, body.as_bytes());
        let (status, fields, body) = parts(expected);
        assert_eq!(answer.status.to_string(), status, "{exchange}");
        for (name, value) in fields {
            assert_eq!(answer.header(&name.to_lowercase()), Some(value), "{exchange}");
        }
        if answer.status < 300 {
            assert_eq!(answer.text().trim_end(), body, "{exchange}");
        }
    }
}
