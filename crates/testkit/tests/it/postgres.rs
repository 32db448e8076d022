//! The PostgreSQL of tests and of `make postgres`.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    thread,
};

use forebay_testkit::{Folder, Postgres, Process, wait_until};
use postgres::{Client, NoTls};

fn connect(url: &str) -> Client {
    Client::connect(url, NoTls).expect("the server takes connections")
}

fn number(client: &mut Client, query: &str) -> i64 {
    client
        .query_one(query, &[])
        .expect("the query has one row")
        .get(0)
}

fn text(client: &mut Client, query: &str) -> String {
    client
        .query_one(query, &[])
        .expect("the query has one row")
        .get(0)
}

/// The process of a server, from the file that it writes.
fn server_in(folder: &Path) -> Process {
    let state = fs::read_to_string(folder.join("data/postmaster.pid")).expect("a server that runs has it");
    let pid = state.lines().next().and_then(|line| line.parse().ok());
    Process::with_pid(pid.expect("its first line is the process")).expect("it runs")
}

#[test]
fn a_server_starts_with_the_data_of_the_benchmarks_in_both_spellings() {
    let mut client = connect(&Postgres::shared().url());
    for world in ["world", "\"World\""] {
        let rows = format!(
            "select count(*) from {world} where id between 1 and 10000 and randomNumber between 1 and 10000"
        );
        assert_eq!(number(&mut client, &rows), 10_000);
        let values = format!("select count(distinct randomNumber) from {world}");
        assert!(number(&mut client, &values) > 5_000, "the numbers are random");
    }
    for fortune in ["fortune", "\"Fortune\""] {
        assert_eq!(
            number(&mut client, &format!("select count(*) from {fortune}")),
            12
        );
        let message = text(
            &mut client,
            &format!("select message from {fortune} where id = 12"),
        );
        assert_eq!(message, "フレームワークのベンチマーク");
    }
    client
        .batch_execute("create table own (id int); drop table own")
        .unwrap();
}

#[test]
fn a_server_has_the_settings_of_the_benchmarks() {
    let mut admin = Postgres::shared().admin();
    for (name, value) in [
        ("max_connections", "2000"),
        ("shared_buffers", "256MB"),
        ("synchronous_commit", "off"),
        ("wal_level", "minimal"),
        ("max_wal_senders", "0"),
        ("ssl", "off"),
        ("listen_addresses", "127.0.0.1"),
    ] {
        assert_eq!(text(&mut admin, &format!("show {name}")), value, "{name}");
    }
}

#[test]
fn the_newest_version_has_all_that_the_installed_one_has() {
    let postgres = Postgres::start_newest();
    let version = number(
        &mut postgres.admin(),
        "select current_setting('server_version_num')::int8",
    );
    assert!(version >= 180_000, "{version}");
    let mut client = connect(&postgres.url());
    assert_eq!(number(&mut client, "select count(*) from \"World\""), 10_000);
    let counted = number(&mut postgres.admin(), "select count(*) from pg_stat_statements");
    assert!(counted > 0);
}

#[test]
fn over_tcp_nobody_gets_in_without_the_password() {
    let right = Postgres::shared().url();
    let wrong = right.replace("benchmarkdbpass", "guessed");
    let error = Client::connect(&wrong, NoTls).err().unwrap();
    assert_eq!(error.code().unwrap().code(), "28P01");
    let admin = right.replace("benchmarkdbuser:benchmarkdbpass", "postgres:guessed");
    assert!(Client::connect(&admin, NoTls).is_err());
    let stored = "select rolpassword from pg_authid where rolname = 'benchmarkdbuser'";
    let stored = text(&mut Postgres::shared().admin(), stored);
    assert!(stored.starts_with("SCRAM-SHA-256$"), "{stored}");
}

#[test]
fn a_server_is_not_run_by_root_and_others_cannot_enter_its_folder() {
    use std::os::unix::fs::MetadataExt;
    let folder = Postgres::shared().socket_folder();
    let attributes = fs::metadata(folder).unwrap();
    assert_eq!(attributes.mode() & 0o777, 0o700);
    let status = fs::read_to_string(format!("/proc/{}/status", server_in(folder).pid)).unwrap();
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
    let users: Vec<u32> = users
        .split_whitespace()
        .map(|user| user.parse().unwrap())
        .collect();
    assert!(
        users.iter().all(|user| *user > 0 && *user == attributes.uid()),
        "{users:?}"
    );
}

#[test]
fn stopped_and_started_again_it_has_its_address_and_what_was_written() {
    let mut postgres = Postgres::start();
    let url = postgres.url();
    connect(&url)
        .batch_execute("update world set randomNumber = 7 where id = 1")
        .unwrap();
    let mut open = connect(&url);
    postgres.stop();
    assert!(open.simple_query("select 1").is_err(), "a stop ends connections");
    assert!(Client::connect(&url, NoTls).is_err(), "nobody listens any more");
    postgres.start_again();
    assert_eq!(postgres.url(), url);
    let read = "select randomNumber::int8 from world where id = 1";
    assert_eq!(number(&mut connect(&url), read), 7);
}

#[test]
fn killed_and_started_again_it_recovers() {
    let mut postgres = Postgres::start();
    let url = postgres.url();
    let mut client = connect(&url);
    client
        .batch_execute("set synchronous_commit = on; update world set randomNumber = 7 where id = 1")
        .unwrap();
    postgres.kill();
    assert!(client.simple_query("select 1").is_err());
    postgres.start_again();
    let read = "select randomNumber::int8 from world where id = 1";
    assert_eq!(number(&mut connect(&url), read), 7);
}

#[test]
fn two_at_once_do_not_collide() {
    let both = [thread::spawn(Postgres::start), thread::spawn(Postgres::start)];
    let [one, other] = both.map(|starting| starting.join().unwrap());
    assert_ne!(one.port(), other.port());
    assert_ne!(one.socket_folder(), other.socket_folder());
    connect(&one.url()).batch_execute("delete from world").unwrap();
    assert_eq!(
        number(&mut connect(&other.url()), "select count(*) from world"),
        10_000
    );
}

#[test]
fn all_connections_but_those_that_check_are_ended_at_once() {
    let postgres = Postgres::start();
    let mut clients: Vec<Client> = (0..5).map(|_| connect(&postgres.url())).collect();
    let mut admin = postgres.admin();
    assert_eq!(postgres.kill_backends(), 5);
    assert!(
        clients
            .iter_mut()
            .all(|client| client.simple_query("select 1").is_err())
    );
    admin.simple_query("select 1").unwrap();
    assert_eq!(postgres.kill_backends(), 0);
    connect(&postgres.url()).simple_query("select 1").unwrap();
}

#[test]
fn nothing_is_left_of_a_server_whose_test_has_ended_or_panicked() {
    for panics in [false, true] {
        let postgres = Postgres::start();
        let folder = postgres.socket_folder().to_owned();
        let server = server_in(&folder);
        let open = connect(&postgres.url());
        let ended = thread::spawn(move || {
            let _held = postgres;
            assert!(!panics, "as a test that fails");
        });
        assert_eq!(ended.join().is_err(), panics);
        assert!(!server.is_alive());
        assert!(!folder.exists());
        drop(open);
    }
}

/// A program that provides a server while it runs, with the server's address and folder.
fn holder() -> (Child, ChildStdin, String, PathBuf) {
    let mut holder = Command::new(env!("CARGO_BIN_EXE_forebay-postgres"))
        .arg("run")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it can be run");
    let input = holder.stdin.take().expect("it is piped");
    let mut lines = BufReader::new(holder.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().expect("it prints two lines").expect("they are text");
    let url = line();
    let folder = PathBuf::from(line());
    (holder, input, url, folder)
}

#[test]
fn a_server_ends_with_the_process_that_has_it_in_whatever_way_that_ends() {
    for killed in [false, true] {
        let (mut holder, input, url, folder) = holder();
        let server = server_in(&folder);
        let open = connect(&url);
        if killed {
            holder.kill().unwrap();
        }
        drop(input);
        assert_eq!(holder.wait().unwrap().success(), !killed);
        wait_until("the server to end", || !server.is_alive());
        wait_until("its folder to be removed", || !folder.exists());
        drop(open);
    }
}

/// Runs the program behind `make postgres` (`start`) and `make postgres-stop` (`stop`), for another folder than `target/`.
fn order(order: &str, folder: &Folder) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay-postgres"))
        .args([order.as_ref(), folder.path()])
        .output()
        .expect("it can be run")
}

fn said(output: &Output) -> &str {
    assert!(output.status.success(), "{output:?}");
    std::str::from_utf8(&output.stdout).expect("it prints text")
}

#[test]
fn make_postgres_starts_one_server_which_stays_until_it_is_stopped() {
    let folder = Folder::new();
    assert_eq!(said(&order("stop", &folder)), "No PostgreSQL runs.\n");
    let first = order("start", &folder);
    let env = folder.read("postgres.env").unwrap();
    let url = env.strip_prefix("FOREBAY_PG_URL=").unwrap().trim_end();
    assert!(said(&first).starts_with("PostgreSQL runs (process "), "{first:?}");
    assert!(said(&first).contains(url), "{first:?}");
    let script = "set -a && . ./postgres.env && printenv FOREBAY_PG_URL";
    let shell = Command::new("sh")
        .args(["-c", script])
        .current_dir(folder.path())
        .output();
    assert_eq!(said(&shell.unwrap()).trim_end(), url, "a shell reads it as well");
    let mut client = connect(url);
    let second = order("start", &folder);
    assert!(
        said(&second).starts_with("PostgreSQL runs already (process "),
        "{second:?}"
    );
    assert!(said(&second).contains(url), "{second:?}");
    assert_eq!(number(&mut client, "select count(*) from world"), 10_000);
    assert_eq!(said(&order("stop", &folder)), "PostgreSQL has ended.\n");
    assert!(client.simple_query("select 1").is_err());
    assert_eq!(folder.read("postgres.env"), None);
    assert_eq!(said(&order("stop", &folder)), "No PostgreSQL runs.\n");
}

#[test]
fn make_postgres_replaces_a_server_that_was_killed_and_removes_what_it_has_left() {
    let folder = Folder::new();
    said(&order("start", &folder));
    let running = folder.read("postgres.running").unwrap();
    let left = PathBuf::from(running.lines().nth(2).unwrap());
    let server = server_in(&left);
    server.kill();
    wait_until("the server to end", || !server.is_alive());
    let again = order("start", &folder);
    assert!(said(&again).starts_with("PostgreSQL runs (process "), "{again:?}");
    assert!(!left.exists());
    assert_eq!(said(&order("stop", &folder)), "PostgreSQL has ended.\n");
}

#[test]
fn without_a_postgresql_the_error_says_what_to_install() {
    let folder = Folder::new();
    let output = Command::new(env!("CARGO_BIN_EXE_forebay-postgres"))
        .args(["start".as_ref(), folder.path()])
        .env("FOREBAY_POSTGRES", "/nowhere")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("looked for initdb and postgres in /nowhere"),
        "{said}"
    );
    assert!(said.contains("apt-get install postgresql"), "{said}");
    assert_eq!(folder.read("postgres.env"), None);
}
