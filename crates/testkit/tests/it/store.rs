//! The store over HTTP.

mod access;
mod changes;
mod children;
mod crashes;
pub(crate) mod database;
mod disk;
mod documents;
mod flushes;
mod garbage;
pub(crate) mod guide;
mod indexes;
mod leading;
mod lifetime;
mod search;
mod sockets;
pub(crate) mod turns;
mod workers;
mod writes;

use forebay_store::{Options, Store};
use forebay_testkit::{Client, Response, Server, Setup};

/// Access rules: everyone may do everything with the globals `Open` and `Other`.
const OPEN: &str =
    "Open = { read = \"public\", write = \"public\" }\nOther = { read = \"public\", write = \"public\" }\n";

/// A store in the server's folder, with further keys of `[store]` and of the route.
fn setup(keys: &str, route: &str) -> Setup {
    Setup::new(&config(keys, OPEN, route)).admin()
}

fn config(keys: &str, access: &str, route: &str) -> String {
    format!(
        "[store]\n{keys}\n[store.access]\n{access}\n[[route]]\npath = \"/store/*\"\nstore = {{}}\n{route}\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    )
}

fn start() -> Server {
    setup("", "").start()
}

/// Opens the server's store in this process.
pub(crate) fn open(server: &Server) -> Store {
    let options = Options {
        lead: false,
        create: false,
        ..Options::default()
    };
    Store::open(&server.folder().path().join("data"), &options).expect("the store can be opened")
}

/// Sends a request.
pub(crate) fn send(client: &mut Client, method: &str, target: &str, fields: &[(&str, &str)], body: &[u8]) {
    let mut bytes = format!("{method} {target} HTTP/1.1\r\nhost: test\r\n").into_bytes();
    for (name, value) in fields {
        bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
    }
    if matches!(method, "GET" | "HEAD") {
        bytes.extend_from_slice(b"\r\n");
    } else {
        bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        bytes.extend_from_slice(body);
    }
    client.send(bytes);
}

/// Sends a request and reads its response.
pub(crate) fn ask(
    client: &mut Client,
    method: &str,
    target: &str,
    fields: &[(&str, &str)],
    body: &[u8],
) -> Response {
    send(client, method, target, fields, body);
    client.response_to(method)
}

/// Writes a document.
pub(crate) fn put(client: &mut Client, target: &str, document: &str) -> Response {
    let answer = ask(client, "PUT", target, &[], document.as_bytes());
    assert!(matches!(answer.status, 201 | 204), "{target}: {answer:?}");
    answer
}

/// Reads a document as text.
pub(crate) fn text(client: &mut Client, target: &str) -> String {
    let answer = client.get(target);
    assert_eq!(answer.status, 200, "{target}: {answer:?}");
    answer.text().to_owned()
}

/// Makes the server reload its configuration.
fn reload(server: &Server) -> Response {
    let mut control = server.control();
    control.request("POST", "/reload");
    control.response()
}
