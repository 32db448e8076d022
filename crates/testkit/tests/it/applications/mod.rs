//! Applications that are written for other servers run in pools as they are.

mod exchange;
mod frameworks;
mod guide;
mod start;
mod trailers;
mod upgrades;

use std::path::{Path, PathBuf};

use forebay_testkit::{Client, Response, Setup};

use crate::support::{ONE_WORKER, Runtime};

/// The packages of the frameworks, which `make deps` installs.
pub(crate) fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("applications")
}

/// A pool `app` of one application at every path, with the packages of the frameworks beside it.
fn application(runtime: Runtime, file: &str, source: &str) -> Setup {
    application_with(runtime, file, source, "")
}

/// Like [`application`], with further keys of the pool.
fn application_with(runtime: Runtime, file: &str, source: &str, keys: &str) -> Setup {
    let name = match runtime {
        Runtime::Node => "node",
        Runtime::Bun => "bun",
    };
    let setup = Setup::new(&format!(
        "[pool.app]\nhandler = \"{file}\"\nruntime = \"{name}\"\n{ONE_WORKER}\n{keys}\n[[route]]\npath = \"/*\"\npool = \"app\"\n"
    ))
    .file(file, source);
    link_packages(&setup);
    setup
}

/// Lets files beside the configuration import the packages of the frameworks.
fn link_packages(setup: &Setup) {
    let folder = setup.folder().path().join("node_modules");
    std::os::unix::fs::symlink(packages().join("node_modules"), folder).expect("the folder is new");
}

/// Sends a request with a body of a type, and reads the response.
fn send(client: &mut Client, method: &str, target: &str, content_type: &str, body: &[u8]) -> Response {
    client.ask(method, target, &format!("content-type: {content_type}\r\n"), body)
}

/// Sends a GET request with one more header.
fn get_with(client: &mut Client, target: &str, header: &str) -> Response {
    client.send(format!("GET {target} HTTP/1.1\r\nhost: a\r\n{header}\r\n\r\n"));
    client.response()
}

const MULTIPART: &str = "multipart/form-data; boundary=boundary";

/// A form in parts: a field `title` and a file of this many bytes.
fn upload(bytes: usize) -> Vec<u8> {
    let mut body = b"--boundary\r\ncontent-disposition: form-data; name=\"title\"\r\n\r\nBig\r\n--boundary\r\n\
        content-disposition: form-data; name=\"file\"; filename=\"big.bin\"\r\ncontent-type: application/octet-stream\r\n\r\n"
        .to_vec();
    body.extend((0..bytes).map(|at| at as u8));
    body.extend_from_slice(b"\r\n--boundary--\r\n");
    body
}
