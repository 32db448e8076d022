//! `forebay load --agents` from the outside: several processes make one load, and what goes wrong is said with the agent's name.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    process::{Child, Stdio},
    thread,
};

use forebay_load::{
    serve::{Options, Server},
    target::Address,
};
use forebay_testkit::{Folder, wait_until};
use serde_json::Value;

use crate::run::{Ended, forebay, run};

fn server() -> Server {
    let address = Address::Tcp(([127, 0, 0, 1], 0).into());
    Server::start(&Options {
        address,
        threads: 1,
        seed: 1,
    })
    .unwrap()
}

/// An agent on a port of its own; it is ended when dropped.
struct Agent {
    child: Child,
    address: String,
}

impl Agent {
    fn start(folder: &Folder, options: &[&str]) -> Self {
        let words = [&["load", "agent", "--listen", "127.0.0.1:0"], options].concat();
        let mut child = forebay(folder.path(), &words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().rsplit(' ').next().unwrap().to_owned();
        Self { child, address }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(folder: &Folder, line: &str) -> Ended {
    let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
    run(folder.path(), &words)
}

/// A server, and two agents that can load it.
struct Two {
    server: Server,
    folder: Folder,
    one: Agent,
    other: Agent,
}

impl Two {
    fn start() -> Self {
        let folder = Folder::new();
        Self {
            server: server(),
            one: Agent::start(&folder, &[]),
            other: Agent::start(&folder, &[]),
            folder,
        }
    }

    /// A line that lets both load the server.
    fn line(&self, options: &str) -> String {
        let agents = format!("{},{}", self.one.address, self.other.address);
        by(&self.server, &agents, options)
    }
}

/// A line that lets agents load a server.
fn by(server: &Server, agents: &str, options: &str) -> String {
    format!("http://{}/ --agents {agents} {options}", server.address())
}

/// A command that goes on, with both its streams kept.
fn going(folder: &Folder, line: &str) -> Child {
    let words: Vec<&str> = std::iter::once("load").chain(line.split_whitespace()).collect();
    forebay(folder.path(), &words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until an agent takes a run again.
fn wait_until_free(folder: &Folder, server: &Server, agent: &Agent) {
    let line = by(server, &agent.address, "-n 1 -c 1");
    wait_until("the agent is free", || load(folder, &line).code == 0);
}

#[test]
fn two_agents_make_one_load_and_lose_nothing() {
    let two = Two::start();
    let ended = load(
        &two.folder,
        &two.line("-c 5 -n 1001 -H x-many:1 --json --save run.json"),
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    assert!(ended.err.starts_with("2 agents are ready: "), "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["requests"]["total"], 1001);
    assert_eq!(report["latency_ms"]["count"], 1001);
    assert_eq!(report["run"]["connections"], 5);
    assert_eq!(two.server.stats().total.received, 1001);
    // An agent is free again afterwards, and what was saved is whole.
    let again = load(
        &two.folder,
        &by(&two.server, &two.one.address, "-n 10 -c 1 --quiet"),
    );
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(load(&two.folder, "report run.json").code, 0);
}

#[test]
fn a_rate_is_shared() {
    let two = Two::start();
    let ended = load(&two.folder, &two.line("-c 4 --rate 500 -n 100 --json"));
    assert_eq!(ended.code, 0, "{ended:?}");
    let report: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["run"]["asked_per_second"], 500.0);
    assert_eq!(report["requests"]["total"], 100);
}

#[test]
fn an_agent_refuses_without_its_token_and_says_so() {
    let (server, folder) = (server(), Folder::new());
    let agent = Agent::start(&folder, &["--token", "secret"]);
    let line = by(&server, &agent.address, "-n 10 -c 1 --quiet");
    for token in ["", " --token wrong"] {
        let ended = load(&folder, &format!("{line}{token}"));
        assert_eq!(ended.code, 1, "{ended:?}");
        assert!(
            ended.err.contains(&format!(
                "agent {} says: the token is missing or wrong",
                agent.address
            )),
            "{ended:?}"
        );
    }
    assert_eq!(server.stats().total.received, 0);
    assert_eq!(load(&folder, &format!("{line} --token secret")).code, 0);
}

#[test]
fn an_agent_keeps_to_its_own_machine_and_to_what_it_may_run() {
    let folder = Folder::new();
    let agent = Agent::start(&folder, &[]);
    let ended = load(
        &folder,
        &format!("http://192.0.2.1/ --agents {} -n 10 -c 1 --quiet", agent.address),
    );
    assert!(
        ended.code == 1 && ended.err.contains("--allow-remote"),
        "{ended:?}"
    );
    // Whoever speaks to it without the command is refused what the command would not ask for.
    let stream = TcpStream::connect(&agent.address).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
    (&stream)
        .write_all(b"{\"hello\":1}\n{\"order\":[\"http://localhost/\",\"--save=/tmp/x\"]}\n")
        .unwrap();
    let answer = lines.next().unwrap().unwrap();
    assert_eq!(answer, r#"{"failed":"an agent does not take --save"}"#);
    // Nor does it give away its environment.
    let asking = TcpStream::connect(&agent.address).unwrap();
    let mut lines = BufReader::new(asking.try_clone().unwrap()).lines();
    (&asking)
        .write_all(b"{\"hello\":1}\n{\"order\":[\"http://localhost/{{env PATH}}\",\"--template\"]}\n")
        .unwrap();
    let answer = lines.next().unwrap().unwrap();
    assert!(answer.contains("failed") && answer.contains("PATH"), "{answer}");
    // A line without an end is not read for ever.
    let mut flood = TcpStream::connect(&agent.address).unwrap();
    let _ = flood.write_all(&vec![b'x'; 100_000]);
    let mut answer = String::new();
    let _ = flood.read_to_string(&mut answer);
    assert!(answer.is_empty() || answer.contains("failed"), "{answer}");
    // Agents that others can reach want a token.
    let open = run(folder.path(), &["load", "agent", "--listen", "0.0.0.0:0"]);
    assert!(open.code == 2 && open.err.contains("--token"), "{open:?}");
}

#[test]
fn a_run_ends_when_its_controller_goes_and_a_second_one_is_told_to_wait() {
    let (server, folder) = (server(), Folder::new());
    let agent = Agent::start(&folder, &[]);
    let line = by(&server, &agent.address, "-d 600 -c 1 --warmup 0 --quiet");
    let mut controller = going(&folder, &line);
    wait_until("the load", || server.stats().total.received > 0);
    let second = load(&folder, &by(&server, &agent.address, "-n 1 -c 1"));
    assert!(
        second.code == 1 && second.err.contains("busy with another run"),
        "{second:?}"
    );
    controller.kill().unwrap();
    controller.wait().unwrap();
    wait_until_free(&folder, &server, &agent);
}

#[test]
fn an_agent_that_goes_is_named_and_the_others_end() {
    let all = Two::start();
    let controller = going(&all.folder, &all.line("-d 600 -c 2 --warmup 0 --quiet"));
    let Two {
        server,
        folder,
        one,
        other,
    } = all;
    wait_until("the load of both", || {
        server.stats().open >= 2 && server.stats().total.received > 0
    });
    let gone = other.address.clone();
    drop(other);
    let ended = crate::run::ended(&controller.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.out.as_str()), (1, ""), "{ended:?}");
    assert!(
        ended.err.contains(&format!("agent {gone} has failed")),
        "{ended:?}"
    );
    wait_until_free(&folder, &server, &one);
}

#[test]
fn one_that_speaks_something_else_is_no_agent() {
    let folder = Folder::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let speaker = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
        // Until the controller has gone.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let ended = load(
        &folder,
        &format!("http://localhost/ --agents {address} -n 1 -c 1"),
    );
    assert!(
        ended.code == 1 && ended.err.contains("means nothing here"),
        "{ended:?}"
    );
    speaker.join().unwrap();
    for (line, reason) in [
        ("http://localhost/ --agents a:1,a:1", "named twice"),
        ("http://localhost/ --agents a:1,b:1 -c 1", "too few for 2 agents"),
        (
            "http://localhost/ --agents a:1 --find-best",
            "--find-best does not go with --agents",
        ),
        (
            "http://localhost/ --agents a:1 --body-file x",
            "--body-file does not go with --agents",
        ),
    ] {
        let ended = load(&folder, line);
        assert!(ended.code == 2 && ended.err.contains(reason), "{line}: {ended:?}");
    }
}
