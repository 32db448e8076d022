//! Records and TQL over HTTP.

mod controllers;
mod direct;
mod guide;
mod handlers;
mod statements;
mod turns;

use forebay_testkit::{Client, Response, Server, Setup};

use crate::store::ask;

/// Access rules: `Article` and `Entry` are public, `Secret` requires the token, and everything else is closed.
const ACCESS: &str = "Article = { read = \"public\", write = \"public\" }\n\
     Entry = { read = \"public\", write = \"public\" }\n\
     Record = { read = \"public\", write = \"public\" }\n\
     Shown = { read = \"public\" }\n\
     Secret = { read = \"token:TOKEN\", write = \"token:TOKEN\" }\n";

fn setup(keys: &str, records: &str) -> Setup {
    Setup::new(&format!(
        "[store]\n{keys}\n[store.access]\n{ACCESS}\n[records]\n{records}\n[[route]]\npath = \"/json/*\"\nrecords = {{}}\n\
         [[route]]\npath = \"/tql\"\ntql = {{}}\n[[route]]\npath = \"/store/*\"\nstore = {{}}\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
    .env("TOKEN", "secret")
    .admin()
}

fn start() -> Server {
    setup("", "").start()
}

/// Creates a record; returns the path of its address.
fn create(client: &mut Client, document: &str) -> String {
    let answer = ask(client, "POST", "/json/", &[], document.as_bytes());
    assert_eq!(answer.status, 201, "{document}: {answer:?}");
    answer
        .header("location")
        .expect("it says where the record is")
        .to_owned()
}

fn tql(client: &mut Client, statement: &str) -> Response {
    ask(client, "POST", "/tql", &[], statement.as_bytes())
}

/// The response to a statement, which must succeed.
fn answered(client: &mut Client, statement: &str) -> String {
    let answer = tql(client, statement);
    assert_eq!(answer.status, 200, "{statement}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
    answer.text().to_owned()
}
