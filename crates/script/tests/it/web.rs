//! The web APIs of scripts.

use crate::scripts::{Fixture, get, text};

/// Handlers that answer with their results as JSON, each with the value that Node has printed for it.
const HANDLER: &str = include_str!("web.mjs");

#[test]
fn the_webs_interfaces_do_what_they_do_elsewhere() {
    let fixture = Fixture::new(HANDLER);
    let names = text(&fixture.executor(&get("/")).unwrap()).to_owned();
    let names = names.trim_matches(['[', ']']).split(',');
    let mut failures = Vec::new();
    for name in names {
        let path = format!("/{}", name.trim_matches('"'));
        let answer = fixture.executor(&get(&path)).unwrap();
        if text(&answer) != "\"right\"" {
            failures.push(format!("{path}: {} {}", answer.status, text(&answer)));
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
