//! A store in a database: servers, workers, scripts and commands share it.

use std::{process::Output, time::Duration};

use forebay_testkit::{Postgres, Server, Setup, command, postgres::Schema, wait_for, wait_until};

use super::{OPEN, ask, put, send, text};

const HANDLER: &str = "
import { store } from 'forebay';
export default () => {
    const count = store.transaction(() => store.node('Open', 'count').increment());
    const list = store.node('Open', 'list');
    return {
        count,
        read: store.get('Open', 'doc'),
        children: [...list.children()].map((node) => node.key),
        found: [...store.query('by-n', { equal: [2] })].map((node) => node.key),
    };
};
";

pub(crate) const PYTHON: &str = "
from forebay import App
from forebay.store import store

app = App()

@app.get('/py')
def answer():
    with store.transaction():
        store.set('Open', 'count', store.get('Open', 'count', default=0) + 1)
    return {'count': store.get('Open', 'count'), 'read': store.get('Open', 'doc')}
";

/// A server whose store is in a database, with a pool of each runtime and a script.
fn start(url: &str, threads: usize) -> Server {
    let pools = ["node", "bun"].map(|runtime| {
        format!(
            "[pool.{runtime}]\nhandler = \"handler.mjs\"\nruntime = \"{runtime}\"\n\
             [[route]]\npath = \"/{runtime}\"\npool = \"{runtime}\"\n"
        )
    });
    Setup::new(&format!(
        "[store]\nurl = \"{url}\"\n[store.index.by-n]\nrecords = \"Open/list\"\nfields = [\"n\"]\n[store.access]\n{OPEN}\n\
         [[route]]\npath = \"/store/*\"\nstore = {{}}\n\
         {}[pool.py]\nhandler = \"handler.py\"\n[[route]]\npath = \"/py\"\npool = \"py\"\n\
         [script.s]\nhandler = \"handler.mjs\"\nallow = {{ store = [\"*\"] }}\n[[route]]\npath = \"/script\"\nscript = \"s\"\n",
        pools.concat()
    ))
    .file("handler.mjs", HANDLER)
    .file("handler.py", PYTHON)
    .threads(threads)
    .admin()
    .start()
}

/// Runs a command of the binary in a server's folder.
fn run(server: &Server, words: &[&str]) -> Output {
    let mut command = command(words);
    command.current_dir(server.folder().path());
    command.output().expect("the program runs")
}

#[test]
fn two_servers_their_workers_and_commands_have_one_store() {
    let schema = Schema::new();
    let url = schema.url();
    let servers = [start(&url, 1), start(&url, 2)];
    let mut clients = servers.each_ref().map(Server::connect);
    put(&mut clients[0], "/store/Open/doc", "{\"a\":[1,2]}");
    put(
        &mut clients[1],
        "/store/Open/list",
        "[{\"n\":1},{\"n\":2},{\"n\":3}]",
    );
    assert_eq!(text(&mut clients[1], "/store/Open/doc"), "{\"a\":[1,2]}");
    let mut count = 0;
    for server in &servers {
        for path in ["/node", "/bun", "/py", "/script"] {
            wait_until("the pool to answer", || server.get("/py").status != 503);
            let before = server.get("/store/Open/count");
            let before: u64 = before.text().parse().unwrap_or(0);
            let answer = server.get(path);
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            let answer = answer.json();
            count = before + 1;
            assert_eq!(answer["count"], count, "{path}: {answer}");
            assert_eq!(answer["read"], serde_json::json!({"a": [1, 2]}), "{path}");
            if path != "/py" {
                assert_eq!(answer["children"], serde_json::json!(["0", "1", "2"]), "{path}");
                assert_eq!(answer["found"], serde_json::json!(["1"]), "{path}");
            }
        }
    }
    // Pages, lines, conditions, and what is a client's error stay as they are.
    let lines = ask(
        &mut clients[0],
        "GET",
        "/store/Open/list",
        &[("accept", "application/x-ndjson")],
        b"",
    );
    assert_eq!(lines.text().lines().count(), 3, "{lines:?}");
    let page = text(&mut clients[1], "/store/Open/list?limit=1");
    assert_eq!(page, "[{\"key\":\"0\",\"value\":{\"n\":1}}]");
    assert_eq!(clients[0].get("/store/Open/none").status, 404);
    assert_eq!(clients[0].get("/store/Secret/x").status, 403);
    let refused = ask(
        &mut clients[0],
        "PUT",
        "/store/Open/doc",
        &[("if-none-match", "*")],
        b"1",
    );
    assert_eq!(refused.status, 412);
    // Commands of the binary, whose output has no password.
    let read = run(&servers[0], &["store", "get", "Open/count", "--data", &url]);
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), count.to_string());
    let stats = run(&servers[0], &["store", "stats", "--data", &url]);
    let stats = String::from_utf8_lossy(&stats.stdout).into_owned();
    assert!(
        stats.contains("postgres://") && !stats.contains("benchmarkdbpass"),
        "{stats}"
    );
    let verified = run(&servers[0], &["store", "verify", "--data", &url]);
    assert!(verified.status.success(), "{verified:?}");
    let copied = run(&servers[0], &["store", "copy", &url, "copied"]);
    assert!(copied.status.success(), "{copied:?}");
    let read = run(&servers[0], &["store", "get", "Open/count", "--data", "copied"]);
    assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), count.to_string());
    for command in [&["store", "compact"][..], &["store", "backup", "backup"]] {
        let refused = run(&servers[0], &[command, &["--data", &url]].concat());
        let message = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(
            !refused.status.success() && message.contains("database"),
            "{message}"
        );
        assert!(!message.contains("benchmarkdbpass"), "{message}");
    }
}

#[test]
fn a_change_on_one_server_is_told_by_the_feed_of_another() {
    let schema = Schema::new();
    let (one, other) = (start(&schema.url(), 1), start(&schema.url(), 1));
    let mut follower = one.connect();
    send(&mut follower, "GET", "/store:changes?since=0", &[], b"");
    assert_eq!(follower.head().expect("an answer begins").status, 200);
    let mut received = String::new();
    for number in 1..4 {
        put(&mut other.connect(), "/store/Open/a", &number.to_string());
        let told = format!("\"value\":{number}");
        while !received.contains(&told) {
            let bytes = follower.some_bytes();
            assert!(!bytes.is_empty(), "the feed goes on: {received}");
            received.push_str(&String::from_utf8_lossy(&bytes));
        }
    }
}

#[test]
fn while_the_database_is_away_requests_get_503_and_others_their_answers() {
    let mut database = Postgres::start();
    let server = start(&database.url(), 1);
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    database.stop();
    for _ in 0..3 {
        let refused = client.get("/store/Open/a");
        assert_eq!(refused.status, 503, "{refused:?}");
        assert!(!refused.text().contains("127.0.0.1"), "{refused:?}");
        let refused = ask(&mut client, "PUT", "/store/Open/a", &[], b"2");
        assert_eq!(refused.status, 503, "{refused:?}");
    }
    // The log says what no client is told.
    server.wait_for_log(&["forebay::store", "cannot be reached"]);
    assert!(!server.log().contains("benchmarkdbpass"));
    database.start_again();
    wait_until("the store to be read", || {
        client.get("/store/Open/a").status == 200
    });
    assert_eq!(text(&mut client, "/store/Open/a"), "1");
    put(&mut client, "/store/Open/a", "3");
    assert_eq!(text(&mut client, "/store/Open/a"), "3");
}

/// Runs statements of an administrator, each on its own.
fn administer(database: &Postgres, statements: &[&str]) {
    let mut admin = database.admin();
    for statement in statements {
        admin.batch_execute(statement).expect("an administrator may");
    }
}

/// Waits until another commit than before waits for a standby, and lets `function` end its wait.
fn end_wait(database: &Postgres, before: &mut String, function: &str) {
    let waiting = "select query_start::text from pg_stat_activity where wait_event = 'SyncRep'";
    *before = wait_for("a commit that waits for a standby", || {
        let rows = database.admin().query(waiting, &[]).expect("it answers");
        let since: String = rows.first()?.get(0);
        (since != *before).then_some(since)
    });
    let end = format!("select {function}(pid) from pg_stat_activity where wait_event = 'SyncRep'");
    administer(database, &[&end]);
}

#[test]
fn no_write_is_acknowledged_that_the_standby_may_not_have() {
    const CANCEL: &str = "pg_cancel_backend";
    let mut database = Postgres::start();
    administer(
        &database,
        &[
            "alter system set wal_level = 'replica'",
            "alter system set max_wal_senders = 1",
        ],
    );
    database.stop();
    database.start_again();
    let server = Setup::new(&format!(
        "[store]\nurl = \"{}\"\n[store.access]\n{OPEN}\n[[route]]\npath = \"/store/*\"\nstore = {{}}\n\
         [[route]]\npath = \"/soon/*\"\nstore = {{}}\ndeadline = \"500ms\"\n",
        database.url()
    ))
    .server("deadline = \"2m\"")
    .start();
    let mut client = server.connect();
    put(&mut client, "/store/Open/a", "1");
    let reload = "select pg_reload_conf()";
    administer(
        &database,
        &["alter system set synchronous_standby_names = 'away'", reload],
    );
    let refused = wait_for("a write that is not confirmed", || {
        let answer = ask(&mut client, "PUT", "/soon/Open/a", &[], b"2");
        (answer.status == 504).then(|| answer.detail())
    });
    assert!(refused.contains("it may still be done"), "{refused}");
    // An operator cancels the wait for the standby. The server then asks whether the commit stands, and that waits again.
    let mut before = String::new();
    end_wait(&database, &mut before, CANCEL);
    end_wait(&database, &mut before, CANCEL);
    send(&mut client, "PUT", "/store/Open/b", &[], b"1");
    end_wait(&database, &mut before, CANCEL);
    end_wait(&database, &mut before, CANCEL);
    let unknown = client.response();
    assert_eq!(unknown.status, 500, "{unknown:?}");
    assert!(unknown.detail().contains("is not known"), "{unknown:?}");
    // So it does when the connection has ended with the wait. Now the standby is given up.
    send(&mut client, "PUT", "/store/Open/c", &[], b"1");
    end_wait(&database, &mut before, "pg_terminate_backend");
    end_wait(&database, &mut before, "abs");
    assert!(
        !client.is_readable_within(Duration::ZERO),
        "the answer waits for the standby"
    );
    administer(
        &database,
        &["alter system reset synchronous_standby_names", reload],
    );
    assert_eq!(client.response().status, 201);
    assert_eq!(text(&mut client, "/store/Open"), "{\"a\":2,\"b\":1,\"c\":1}");
}
