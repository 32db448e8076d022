//! Pools whose workers are on other machines: front ends and worker hosts that find each other over a real NATS server.

mod broker;
mod faults;
mod jobs;
mod load;
mod machines;
mod requests;
mod store;

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    process::{Command, Stdio},
    sync::{Arc, Condvar, Mutex},
    time::Duration,
};

use forebay_testkit::{Server, Setup, free_port, wait_until};

use crate::rule_clients::Running;

/// One worker, and no limit that passes while a test waits.
const PATIENT: &str = "workers = { min = 1, max = 1 }\nrun_timeout = \"2m\"";

/// Longest wait for a message that has to come.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// A NATS server of one test.
struct Nats {
    process: Option<Running>,
    port: u16,
    arguments: Vec<String>,
}

impl Nats {
    fn start() -> Self {
        Self::with(&[])
    }

    /// A server with further arguments.
    fn with(arguments: &[&str]) -> Self {
        let mut nats = Self::stopped(arguments);
        nats.run();
        nats
    }

    /// A server that does not run yet, at a port of its own.
    fn stopped(arguments: &[&str]) -> Self {
        Self {
            process: None,
            port: free_port(),
            arguments: arguments.iter().map(|&argument| argument.to_owned()).collect(),
        }
    }

    fn run(&mut self) {
        let built = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/nats/nats-server");
        let program = std::env::var("FOREBAY_NATS").unwrap_or(built.into());
        let process = Command::new(program)
            .args(["--addr", "127.0.0.1", "--port", &self.port.to_string()])
            .args(&self.arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nats-server is there: `make deps` builds it, and FOREBAY_NATS names another");
        self.process = Some(Running(process));
        let port = self.port;
        wait_until("NATS listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    }

    fn stop(&mut self) {
        self.process = None;
    }

    fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Publishes a message, as any client of NATS can.
    fn publish(&self, subject: &str, payload: &str) {
        let mut client = TcpStream::connect(("127.0.0.1", self.port)).expect("NATS listens");
        let length = payload.len();
        write!(
            client,
            "CONNECT {{\"verbose\":false}}\r\nPUB {subject} {length}\r\n{payload}\r\nPING\r\n"
        )
        .expect("NATS reads");
        client.shutdown(Shutdown::Write).expect("it was open");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("NATS answers");
        assert!(answer.contains("PONG") && !answer.contains("-ERR"), "{answer}");
    }
}

/// Hands everything on between a front end and the broker, until what the front end says has `held` in it: that waits for [`Gate::open`].
struct Gate {
    port: u16,
    held: Arc<Mutex<Option<String>>>,
    opened: Arc<Condvar>,
}

impl Gate {
    fn start(nats: &Nats) -> Self {
        let broker = nats.port;
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let (held, opened) = (Arc::new(Mutex::new(None::<String>)), Arc::new(Condvar::new()));
        let gate = Self {
            port,
            held: Arc::clone(&held),
            opened: Arc::clone(&opened),
        };
        std::thread::spawn(move || {
            for front in listener.incoming().map_while(Result::ok) {
                let broker = TcpStream::connect(("127.0.0.1", broker)).expect("NATS listens");
                let mut said = front.try_clone().expect("it is open");
                let mut answered = broker.try_clone().expect("it is open");
                std::thread::spawn(move || std::io::copy(&mut answered, &mut &front));
                let (held, opened) = (Arc::clone(&held), Arc::clone(&opened));
                std::thread::spawn(move || {
                    let mut bytes = vec![0; 1 << 20];
                    while let Ok(length @ 1..) = said.read(&mut bytes) {
                        let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                        let is_held = |held: &mut Option<String>| {
                            held.as_ref().is_some_and(|held| text.contains(held.as_str()))
                        };
                        let held = held.lock().expect("nobody panics");
                        drop(opened.wait_while(held, is_held).expect("nobody panics"));
                        if (&broker).write_all(&bytes[..length]).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        gate
    }

    fn hold(&self, text: String) {
        *self.held.lock().expect("nobody panics") = Some(text);
    }

    fn open(&self) {
        *self.held.lock().expect("nobody panics") = None;
        self.opened.notify_all();
    }
}

/// A client of NATS that says what no process of ours would say.
struct Stranger(BufReader<TcpStream>);

impl Stranger {
    /// Connects, and subscribes to one subject.
    fn subscribed(nats: &Nats, subject: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", nats.port)).expect("NATS listens");
        stream
            .set_read_timeout(Some(MESSAGE_TIMEOUT))
            .expect("it is open");
        let mut client = Self(BufReader::new(stream));
        client.say(
            format!("CONNECT {{\"verbose\":false,\"headers\":true}}\r\nSUB {subject} 1\r\nPING\r\n")
                .as_bytes(),
        );
        while client.line() != "PONG" {}
        client
    }

    fn say(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).expect("NATS reads");
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("NATS answers");
        assert!(!line.is_empty(), "NATS has ended the connection");
        line.trim_end().to_owned()
    }

    /// Publishes a message of a link: its number, then bytes.
    fn publish(&mut self, subject: &str, number: u64, bytes: &[u8]) {
        let length = 8 + bytes.len();
        let head = format!("PUB {subject} {length}\r\n");
        self.say(&[head.as_bytes(), &number.to_le_bytes(), bytes, b"\r\n"].concat());
    }

    /// Whether something to read comes within this time.
    fn hears(&mut self, patience: Duration) -> bool {
        let stream = self.0.get_ref();
        stream.set_read_timeout(Some(patience)).expect("it is open");
        let has_come = self.0.fill_buf().is_ok();
        let stream = self.0.get_ref();
        stream
            .set_read_timeout(Some(MESSAGE_TIMEOUT))
            .expect("it is open");
        has_come
    }

    /// The next message of a link: its subject, number and bytes.
    fn message(&mut self) -> (String, u64, Vec<u8>) {
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split(' ').collect();
            let ["MSG", subject, .., length] = words[..] else {
                continue;
            };
            let mut payload = vec![0; length.parse::<usize>().expect("a length") + 2];
            self.0.read_exact(&mut payload).expect("a payload");
            payload.truncate(payload.len() - 2);
            let (number, bytes) = payload.split_first_chunk().expect("a number");
            return (subject.to_owned(), u64::from_le_bytes(*number), bytes.to_vec());
        }
    }
}

/// The configuration of all processes: a pool `api` of one module at every path, on the machines of a cluster.
fn config(nats: &str, keys: &str) -> String {
    format!(
        "[cluster]\nnats = \"{nats}\"\n[pool.api]\nat = \"cluster\"\nhandler = \"api.mjs\"\nruntime = \"node\"\n{keys}\n\
         [[route]]\npath = \"/*\"\npool = \"api\"\n[[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    )
}

/// A process of the cluster, with the handlers of its pool.
fn node(nats: &str, handlers: &str, keys: &str) -> Setup {
    let setup = Setup::new(&config(nats, keys)).file("api.mjs", handlers);
    setup.server("deadline = \"2m\"").admin()
}

fn front(nats: &Nats, handlers: &str, keys: &str) -> Server {
    node(&nats.url(), handlers, keys).start()
}

fn host(nats: &Nats, handlers: &str, keys: &str) -> Server {
    node(&nats.url(), handlers, keys).work_on("api").start()
}

/// Waits until a front end has so many hosts that take jobs.
fn wait_for_hosts(front: &Server, count: usize) {
    wait_until(&format!("{count} hosts"), || hosts(front, "ready").len() == count);
}

/// The numbers of a front end's hosts in a phase.
fn hosts(front: &Server, phase: &str) -> Vec<u64> {
    let status = front.control().get("/status").json();
    let workers = status["pools"][0]["workers"].as_array().expect("a list").clone();
    let ready = workers.iter().filter(|worker| worker["phase"] == phase);
    ready
        .map(|worker| worker["id"].as_u64().expect("a number"))
        .collect()
}

/// The random name of the host that a front end has attached last.
fn host_id(front: &Server) -> String {
    let log = front.wait_for_log(&["host attached"]);
    let rest = log.split("\"id\":\"").nth(1);
    rest.and_then(|rest| rest.get(..16))
        .expect("the log has its name")
        .to_owned()
}

/// Announces a host, as anybody may who may publish.
fn announce(nats: &Nats, id: &str, protocol: u32, room: usize) {
    let announcement = format!(
        r#"{{"id":"{id}","name":"forged","version":"9.9","link":1,"protocol":{protocol},"room":{room},"draining":false}}"#
    );
    nats.publish("forebay.main.api.hosts", &announcement);
}
