//! Long reads of records: others on the same thread get their turn meanwhile.

use super::setup;
use crate::store::turns::{fill, others_are_answered_before};

#[test]
fn others_are_answered_while_a_long_record_or_many_are_read() {
    let server = setup("", "").threads(1).start();
    let elements: Vec<String> = (0..100_000).map(|at| format!("{{\"n\":{at}}}")).collect();
    let long = format!("{{\"kind\":\"Article\",\"list\":[{}]}}", elements.join(","));
    let record = |reference: u32| {
        let document = if reference == 7 {
            &long
        } else {
            r#"{"kind":"Article"}"#
        };
        ("Article", reference.to_string(), document.to_owned())
    };
    let entry = ("%Ref", "7".to_owned(), "\"Article\"".to_owned());
    fill(&server, (1..=90_000).map(record).chain([entry]));
    let mut client = server.connect();
    assert!(client.get("/json/0000000000000007").text() == long, "it is whole");
    let last = client.get("/json/?kind=Article&page=89&size=1000");
    assert!(last.text().ends_with(",90000]"), "{last:?}");
    for target in [
        "0000000000000007",
        "?kind=Article&page=89&size=1000",
        "?kind=Article&size=8&full",
    ] {
        others_are_answered_before(&server, &format!("/json/{target}"));
    }
}
