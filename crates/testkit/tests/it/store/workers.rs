//! Workers beside the store: how they are notified, and that no client learns of one of their commits before it is safe.

use std::time::Duration;

use forebay_store::{Durability, Key, Read as _, Store};
use forebay_testkit::{Server, Setup, wait_until};

use super::{OPEN, ask, config, disk::Disk, open, reload, start};
use crate::support::Runtime;

#[test]
fn workers_are_told_where_the_store_is_and_what_they_may() {
    const SOURCE: &str =
        "export default () => `${process.env.FOREBAY_STORE}|${process.env.FOREBAY_STORE_MODE}`;";
    for runtime in Runtime::BOTH {
        let name = format!("{runtime:?}").to_lowercase();
        for (section, key, expected) in [
            ("[store]", "", "data|rw"),
            ("[store]\npath = \"a/b\"", "store = \"ro\"", "a/b|ro"),
            ("[store]", "store = \"none\"", "undefined|none"),
            ("", "", "undefined|none"),
        ] {
            let server = Setup::new(&format!(
                "{section}\n[pool.api]\nhandler = \"api.mjs\"\nruntime = \"{name}\"\n{key}\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
            ))
            .file("api.mjs", SOURCE)
            .start();
            wait_until("the pool to answer", || server.get("/").status == 200);
            let answer = server.get("/");
            let (path, mode) = answer.text().split_once('|').unwrap();
            let (expected_path, expected_mode) = expected.split_once('|').unwrap();
            let expected_path = match expected_path {
                "undefined" => expected_path.to_owned(),
                below => {
                    let path = server.folder().path().canonicalize().unwrap().join(below);
                    path.display().to_string()
                }
            };
            assert_eq!(
                (path, mode),
                (expected_path.as_str(), expected_mode),
                "{section} {key}"
            );
        }
    }
}

#[test]
fn handlers_have_the_limits_of_the_configuration() {
    const SOURCE: &str = "
import { store } from 'forebay';
import { open } from 'forebay/store';
const outcome = (action) => { try { action(); return 'done'; } catch (error) { return error.code; } };
export default (request) => {
    if (request.path === '/') return 'ready';
    const [kept, refused] = [1024, 1025].map((length) => outcome(() => store.set('A', 'x'.repeat(length - 2))));
    const used = ['sync', 'group', 'relaxed'].filter((durability) => outcome(() => open(store.path, { durability })) === 'done');
    const aged = outcome(() => store.snapshot(() => {
        const until = Date.now() + 1300;
        while (Date.now() < until);
        store.get('A');
    }));
    return `${kept} ${refused} ${used} ${aged}`;
};";
    for runtime in Runtime::BOTH {
        let name = format!("{runtime:?}").to_lowercase();
        for durability in ["relaxed", "sync"] {
            let server = Setup::new(&format!(
                "[store]\ndurability = \"{durability}\"\nvalue_bytes_max = \"1KiB\"\nreader_age_max = \"1s\"\n\
                 [pool.api]\nhandler = \"api.mjs\"\nruntime = \"{name}\"\n[[route]]\npath = \"/*\"\npool = \"api\"\n"
            ))
            .file("api.mjs", SOURCE)
            .start();
            wait_until("the pool to answer", || server.get("/").status == 200);
            assert_eq!(
                server.get("/limits").text(),
                format!("done value_too_long {durability} snapshot_too_old"),
                "{name} {durability}"
            );
        }
    }
}

#[test]
fn a_worker_may_not_be_given_another_store() {
    let server = start();
    let refused = |pool: &str| {
        server.reconfigure(&format!(
            "{}[pool.api]\ncommand = [\"true\"]\n{pool}\n",
            config("", OPEN, "")
        ));
        reload(&server).text().to_owned()
    };
    let said = refused("env = { FOREBAY_STORE = \"/elsewhere\" }");
    assert!(
        said.contains("the worker protocol sets FOREBAY_STORE itself"),
        "{said}"
    );
    assert_eq!(
        ask(&mut server.connect(), "PUT", "/store/Open/1", &[], b"1").status,
        201
    );
}

/// A handler that reports, through the shared page, that it has made the commit that its path names.
const COMMITTING: &str = "
import { writeSync } from 'node:fs';
export default (request) => {
    const word = Buffer.alloc(8);
    word.writeBigUInt64LE(BigInt(request.path.slice(1)));
    writeSync(Number(process.env.FOREBAY_PAGE_FD), word, 0, 8, 256);
    return 'done';
};";

/// A server on that disk which flushes nothing by itself, with this handler at every path.
fn serving(disk: &Disk, handler: &str, deadline: &str) -> Server {
    let setup = Setup::new(&format!(
        "[store]\nflush_interval = \"1m\"\n[pool.api]\nhandler = \"api.mjs\"\nworkers = {{ min = 1, max = 1 }}\n\
         [[route]]\npath = \"/0\"\npool = \"api\"\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\ndeadline = \"{deadline}\"\n",
    ));
    // Handlers begin before the body is complete.
    let setup = setup.server("body_buffer_max = 0");
    let server = disk.under(setup).file("api.mjs", handler).start();
    wait_until("the pool to answer", || server.get("/0").status == 200);
    server
}

/// Makes a commit, and lets no flush finish from then on. Closing the store would wait for one.
fn commit_behind(disk: &Disk, server: &Server) -> (Store, u64) {
    let store = open(server);
    let mut transaction = store.begin().expect("a transaction can be begun");
    let key = Key::global("Open").expect("a global's name");
    transaction.put(&key, b"1").expect("it is JSON");
    let commit = transaction
        .commit(Durability::Relaxed)
        .expect("a relaxed commit waits for no disk");
    disk.hold();
    (store, commit)
}

#[test]
fn an_answer_waits_until_the_commit_behind_it_is_on_the_disk() {
    let disk = Disk::new();
    let server = serving(&disk, COMMITTING, "20s");
    let (_store, commit) = commit_behind(&disk, &server);
    let mut client = server.connect();
    client.request("GET", &format!("/{commit}"));
    assert!(
        !client.is_readable_within(Duration::from_millis(300)),
        "the answer came before the disk"
    );
    disk.go_on();
    let answer = client.response();
    assert_eq!((answer.status, answer.text()), (200, "done"));
    // A later request that depends on the commit has nothing to wait for.
    disk.hold();
    assert_eq!(server.get(&format!("/{commit}")).status, 200);
    disk.go_on();
}

#[test]
fn an_answer_of_a_python_worker_waits_until_its_commit_is_on_the_disk() {
    let disk = Disk::new();
    let setup = Setup::new(
        "[store]\nflush_interval = \"1m\"\n[pool.api]\nhandler = \"api.py\"\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\ndeadline = \"20s\"\n",
    );
    let handler = "from forebay import App\nfrom forebay.store import store\napp = App()\n\
        @app.get('/read')\ndef read():\n    return {'is': store.get('Open')}\n\
        @app.get('/write')\ndef write():\n    store.set('Open', 1)\n    return 'done'\n";
    let server = disk.under(setup).file("api.py", handler).start();
    wait_until("the pool to answer", || server.get("/read").status == 200);
    disk.hold();
    let mut client = server.connect();
    client.request("GET", "/write");
    assert!(
        !client.is_readable_within(Duration::from_millis(300)),
        "the answer came before the disk"
    );
    // Meanwhile the worker is free, and has made the commit.
    let store = open(&server);
    let key = Key::global("Open").expect("a global's name");
    wait_until("the commit", || {
        let snapshot = store.snapshot().expect("there is room for a snapshot");
        snapshot.get(&key).expect("the store can be read").is_some()
    });
    disk.go_on();
    let answer = client.response();
    assert_eq!((answer.status, answer.text()), (200, "done"));
}

#[test]
fn an_answer_whose_commit_is_not_on_the_disk_in_time_is_a_504() {
    let disk = Disk::new();
    let server = serving(&disk, COMMITTING, "1s");
    let (_store, commit) = commit_behind(&disk, &server);
    let answer = server.get(&format!("/{commit}"));
    assert_eq!(answer.status, 504, "{answer:?}");
    disk.go_on();
    assert_eq!(server.get(&format!("/{commit}")).status, 200);
}

#[test]
fn an_answer_whose_commit_does_not_come_to_the_disk_is_a_500_and_the_log_names_its_request() {
    const WHY: &str = "committed, but the flush to the disk failed";
    let disk = Disk::new();
    let server = serving(&disk, COMMITTING, "20s");
    let (_store, commit) = commit_behind(&disk, &server);
    disk.refuse();
    disk.go_on();
    let mut client = server.connect();
    let answer = ask(
        &mut client,
        "GET",
        &format!("/{commit}"),
        &[("x-request-id", "unsafe-7")],
        b"",
    );
    assert_eq!(answer.status, 500, "{answer:?}");
    assert_eq!(answer.text().matches(WHY).count(), 1, "{answer:?}");
    let line = server.wait_for_log(&["the store fails", "unsafe-7"]);
    assert_eq!(line.matches(WHY).count(), 1, "{line}");
}

#[test]
fn a_piece_of_an_answer_waits_until_the_commit_behind_it_is_on_the_disk() {
    const STREAMING: &str = "
import { writeSync } from 'node:fs';
export default async function* (request) {
    yield 'begun';
    await request.text();
    const word = Buffer.alloc(8);
    word.writeBigUInt64LE(BigInt(request.path.slice(1)));
    writeSync(Number(process.env.FOREBAY_PAGE_FD), word, 0, 8, 256);
    yield 'saved';
}";
    let disk = Disk::new();
    let server = serving(&disk, STREAMING, "20s");
    let (_store, commit) = commit_behind(&disk, &server);
    // The handler commits once it has the request's body, which is after its response has begun.
    let mut client = server.connect();
    client.send(format!(
        "POST /{commit} HTTP/1.1\r\nhost: test\r\ncontent-length: 200000\r\n\r\n"
    ));
    client.send(vec![b'x'; 100_000]);
    assert_eq!(client.head().unwrap().status, 200);
    let mut received = String::new();
    let mut receive = |client: &mut forebay_testkit::Client| {
        let bytes = client.some_bytes();
        assert!(!bytes.is_empty(), "the answer is cut off: {received:?}");
        received.push_str(std::str::from_utf8(&bytes).unwrap());
        received.clone()
    };
    while !receive(&mut client).contains("begun") {}
    client.send(vec![b'x'; 100_000]);
    assert!(
        !client.is_readable_within(Duration::from_millis(500)),
        "a piece came before the disk"
    );
    disk.go_on();
    while !receive(&mut client).ends_with("0\r\n\r\n") {}
    assert!(received.contains("saved"));
}
