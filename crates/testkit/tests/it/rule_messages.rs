//! Messages sent by rules: e-mail, and records for Kafka.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpListener,
    path::PathBuf,
    process::{ChildStdout, Command, Stdio},
    time::Instant,
};

use forebay_testkit::{Folder, Server};
use serde_json::{Value, json};

use crate::{
    certificates::{for_localhost, issuer},
    rule_clients::{Running, values},
    workflows::{rules, run},
};

/// A program of `crates/testkit/messages`, whose first line of output is its address.
fn program(name: &str, arguments: &[&str]) -> (Running, BufReader<ChildStdout>, String) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("messages");
    let mut process = Command::new(folder.join(".venv/bin/python"))
        .arg(folder.join(name))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("its Python is there: `make deps` installs it");
    let mut lines = BufReader::new(process.stdout.take().expect("it is piped"));
    let mut first = String::new();
    lines.read_line(&mut first).expect("it says where it listens");
    (Running(process), lines, first.trim().to_owned())
}

/// An SMTP server.
struct Mail {
    _process: Running,
    taken: BufReader<ChildStdout>,
    port: u16,
    folder: Folder,
}

impl Mail {
    const PASSWORD: &str = "hidden-4711";

    /// A server whose certificate is of the authority in `ca.pem` of its folder.
    fn start(tls: &str, more: &[&str]) -> Self {
        let folder = Folder::new();
        let authority = issuer("authority of mail");
        let (certificate, key) = for_localhost(&authority, 2020..2100);
        folder.write("ca.pem", authority.pem());
        folder.write("cert.pem", certificate.pem());
        folder.write("key.pem", key.serialize_pem());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let (certificate, key) = (path("cert.pem"), path("key.pem"));
        let mut arguments = vec!["--tls", tls, "--cert", &certificate, "--key", &key];
        arguments.extend(more);
        let (process, taken, port) = program("smtp.py", &arguments);
        Self {
            _process: process,
            taken,
            port: port.parse().expect("it says its port"),
            folder,
        }
    }

    fn with_login(tls: &str, mechanism: &str) -> Self {
        let login = [
            "--mechanism",
            mechanism,
            "--user",
            "shop",
            "--password",
            Self::PASSWORD,
        ];
        Self::start(tls, &login)
    }

    /// The next message that it has received.
    fn message(&mut self) -> Value {
        let mut line = String::new();
        self.taken.read_line(&mut line).expect("it goes on");
        serde_json::from_str(&line).expect("a message")
    }

    /// A server whose rule `send` sends its arguments through this one.
    fn server(&self, keys: &str) -> Server {
        server_of_mail(self.port, keys, Some(&self.folder))
    }
}

fn server_of_mail(port: u16, keys: &str, trusted: Option<&Folder>) -> Server {
    let keys = format!(
        "allow = {{ mail = [\"office\"] }}\n[mail.office]\nhost = \"localhost\"\nport = {port}\nfrom = \"Shop <shop@example.org>\"\nto = [\"*@example.org\", \"boss@other.example\"]\n{keys}"
    );
    let send = "const { name, ...message } = context.getArgs();
        const mail = context.getDataService().obtainNotifier('EMAIL', name);
        return mail.send(message).then((taken) => new ScriptResult(true, taken), (error) => new ScriptResult(false, { code: error.code ?? error.name, message: error.message }));";
    let mut setup = rules(&keys, &[("send", send)]).env("MAIL_PASSWORD", Mail::PASSWORD);
    if let Some(folder) = trusted {
        let authority = folder.path().join("ca.pem");
        setup = setup.env("SSL_CERT_FILE", authority.to_str().expect("a path of text"));
    }
    setup.start()
}

const LOGIN: &str = "user = \"shop\"\npassword = \"MAIL_PASSWORD\"";

/// The error of sending a message, as `code: message`.
fn failure(server: &Server, message: &Value) -> String {
    let (status, answer) = run(server, "/workflow/send", message);
    assert_eq!((status, &answer["state"]), (200, &json!(false)), "{answer}");
    let values = &answer["valueMap"];
    let text = |name: &str| values[name].as_str().unwrap_or_default().to_owned();
    format!("{}: {}", text("code"), text("message"))
}

/// The headers of a message as they arrived, and its body.
fn parts(data: &str) -> (Vec<&str>, &str) {
    let (head, body) = data.split_once("\r\n\r\n").expect("a message has both");
    (head.split("\r\n").collect(), body)
}

#[test]
fn mail_is_sent_with_text_and_html_and_the_server_says_what_it_has_taken() {
    let mut mail = Mail::start("none", &[]);
    let server = mail.server("tls = \"none\"");
    let taken = values(
        &server,
        "send",
        &json!({
            "to": ["Zoë <a@example.org>", "b@EXAMPLE.org"], "cc": "boss@other.example", "bcc": ["c@example.org", "a@example.org"], "replyTo": "desk@else.example",
            "subject": "Größe – 4 €", "text": "one\n.\n..two\r.\rthree ü", "html": "<p>ü</p>",
        }),
    );
    assert_eq!(
        (&taken["code"], &taken["reply"]),
        (&json!(250), &json!("2.0.0 Ok: queued as 4F1B2"))
    );
    let message = mail.message();
    assert_eq!(message["from"], "shop@example.org");
    assert_eq!(
        message["to"],
        json!([
            "a@example.org",
            "b@EXAMPLE.org",
            "boss@other.example",
            "c@example.org"
        ])
    );
    let data = message["data"].as_str().expect("a text");
    let (head, body) = parts(data);
    let id = taken["messageId"].as_str().expect("a text");
    for line in [
        "From: Shop <shop@example.org>",
        "Cc: boss@other.example",
        "Reply-To: desk@else.example",
        "MIME-Version: 1.0",
        &format!("Message-ID: {id}"),
    ] {
        assert!(head.contains(&line), "{line}: {head:?}");
    }
    assert!(id.starts_with('<') && id.ends_with("@example.org>"), "{id}");
    assert!(
        head.iter().any(|line| line.starts_with("Subject: =?utf-8?b?")),
        "{head:?}"
    );
    assert!(
        !data.replace(id, "").contains("c@example.org"),
        "who gets it besides is not told: {data}"
    );
    assert!(
        body.contains("text/plain") && body.contains("text/html"),
        "{body}"
    );

    // ASCII texts travel unchanged, including lines of a single point.
    let text = "one\n.\n..two\r.\rthree\r\n.\r\n";
    let message_of_rengine = json!({"to": "a@example.org", "subject": "plain", "msg": text});
    values(&server, "send", &message_of_rengine);
    let message = mail.message();
    let (head, body) = parts(message["data"].as_str().expect("a text"));
    assert!(head.contains(&"Subject: plain"), "{head:?}");
    assert_eq!(body.trim_end(), "one\r\n.\r\n..two\r\n.\r\nthree\r\n.");
}

#[test]
fn mail_goes_encrypted_with_a_login_to_servers_that_are_trusted() {
    let message = json!({"to": "a@example.org", "subject": "s", "text": "t"});
    for (tls, mechanism) in [
        ("starttls", "PLAIN"),
        ("starttls", "LOGIN"),
        ("implicit", "PLAIN"),
    ] {
        let mut mail = Mail::with_login(tls, mechanism);
        let keys = format!("tls = \"{tls}\"\n{LOGIN}");
        let server = mail.server(&keys);
        values(&server, "send", &message);
        let taken = mail.message();
        assert_eq!(
            (&taken["encrypted"], &taken["user"]),
            (&json!(true), &json!("shop")),
            "{tls} {mechanism}"
        );
        // This server does not trust the certificate's authority.
        let untrusting = server_of_mail(mail.port, &keys, None);
        let told = failure(&untrusting, &message);
        assert!(
            told.starts_with("failed: mail `office` failed: invalid peer certificate: UnknownIssuer"),
            "{told}"
        );
        assert!(!server.log().contains(Mail::PASSWORD));
    }
    let mail = Mail::with_login("starttls", "PLAIN");
    let wrong = mail.server("user = \"somebody\"\npassword = \"MAIL_PASSWORD\"");
    let told = failure(&wrong, &message);
    assert!(
        told.starts_with(
            "refused: mail `office` refused: 535 5.7.8 Authentication credentials invalid (to AUTH)"
        ),
        "{told}"
    );
    let plain = Mail::start("none", &[]);
    let told = failure(&plain.server(""), &message);
    assert_eq!(told, "failed: mail `office` failed: it does not offer STARTTLS");
}

#[test]
fn mail_that_is_refused_or_may_not_be_sent_goes_to_nobody() {
    let mut mail = Mail::start("none", &[]);
    let server = mail.server("tls = \"none\"\nmessage_bytes_max = \"2KiB\"\nrecipients_max = 3");
    let message = |members: Value| {
        let mut message = json!({"to": "a@example.org", "subject": "s", "text": "t"});
        for (name, value) in members.as_object().expect("an object") {
            message[name] = value.clone();
        }
        message
    };
    for (members, told) in [
        (
            json!({"to": ["a@example.org", "refused@example.org"]}),
            "refused: mail `office` refused: 550 5.1.1 nobody of that name (to RCPT TO:<refused@example.org>)",
        ),
        (
            json!({"cc": "a@elsewhere.example"}),
            "not_allowed: recipient `a@elsewhere.example` may not be reached: `to` of `[mail.office]` names *@example.org, boss@other.example",
        ),
        (
            json!({"bcc": "*@example.org.evil.example"}),
            "not_allowed: recipient `*@example.org.evil.example`",
        ),
        (
            json!({"to": "a@example.org\r\nBcc: x@evil.example"}),
            "operation: ",
        ),
        (
            json!({"to": "A\r\nBcc: x@evil.example\r\n <a@example.org>"}),
            "operation: ",
        ),
        (json!({"to": "a@example.org, x@evil.example"}), "operation: "),
        (
            json!({"to": "a@example.org>\u{a0}<x@evil.example"}),
            "operation: ",
        ),
        (json!({"replyTo": "A\nX: y <a@example.org>"}), "operation: "),
        (
            json!({"subject": "s\r\nBcc: x@evil.example"}),
            "operation: this is no operation of a client: a subject has at most 2000 bytes, and no control characters",
        ),
        (json!({"subject": "s\u{0}"}), "operation: "),
        (
            json!({"to": ["a@example.org", "b@example.org"], "cc": ["c@example.org", "d@example.org"]}),
            "operation: this is no operation of a client: a message has 1 to 3 recipients (recipients_max), and not 4",
        ),
        (json!({"to": []}), "operation: "),
        (
            json!({"text": "long ".repeat(500)}),
            "too_long: the message for mail `office` is longer than 2048 bytes (message_bytes_max)",
        ),
        // It is longer once it is encoded.
        (json!({"text": "ü".repeat(800)}), "too_long: "),
        (
            json!({"text": null}),
            "operation: this is no operation of a client: a message has `text`, `html` or both",
        ),
        (
            json!({"attachments": []}),
            "TypeError: a message has no `attachments`",
        ),
        (
            json!({"name": "other"}),
            "not_allowed: mail `other` may not be reached: `allow` of `[workflow]` names office in `mail`",
        ),
    ] {
        let failure = failure(&server, &message(members));
        assert!(failure.starts_with(told), "{told}: {failure}");
        assert!(failure.len() < 600, "{failure}");
    }
    // The first message received is the allowed one: none of the others was accepted.
    values(&server, "send", &message(json!({"subject": "the only one"})));
    let taken = mail.message();
    let data = taken["data"].as_str().expect("a text");
    assert!(
        data.contains("Subject: the only one") && !data.contains("evil"),
        "{data}"
    );
}

#[test]
fn servers_of_mail_that_stall_break_off_or_talk_nonsense_are_errors_in_time() {
    let mail = Mail::start("none", &[]);
    let server = mail.server("tls = \"none\"\nsend_timeout = \"1s\"\nconnections_max = 1");
    let to = |name: &str| json!({"to": format!("{name}@example.org"), "subject": "s", "text": "t"});
    let begun = Instant::now();
    assert_eq!(
        failure(&server, &to("stall")),
        "timeout: mail `office` has taken longer than 1s (send_timeout)"
    );
    let cut = failure(&server, &to("cut"));
    assert!(cut.starts_with("failed: mail `office` failed: "), "{cut}");
    values(&server, "send", &to("a"));
    assert!(begun.elapsed().as_secs() < 30);

    // Greetings of a server: none, too long a line, too many lines, something else, and an immediate end.
    for (said, told) in [
        (
            None,
            "timeout: mail `office` has taken longer than 1s (send_timeout)",
        ),
        (
            Some(b"220 ".repeat(100_000)),
            "failed: mail `office` failed: a line of a reply is too long",
        ),
        (
            Some(b"220-a\r\n".repeat(1000)),
            "failed: mail `office` failed: a reply has too many lines",
        ),
        (
            Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            "failed: mail `office` failed: a reply does not begin with a code",
        ),
        (
            Some(b"\xff\xff\xff\xff\r\n".to_vec()),
            "failed: mail `office` failed: a reply does not begin with a code",
        ),
        (
            Some(b"421 4.3.2 going down\r\n".to_vec()),
            "refused: mail `office` refused: 421 4.3.2 going down (to its greeting)",
        ),
        (
            Some(b"220 a\r\n250-x\r\n250 STARTTLS\r\n220 go\r\n250 injected\r\n".to_vec()),
            "failed: mail `office` failed: it has said something before the connection was encrypted",
        ),
        (Some(Vec::new()), "failed: mail `office` failed: "),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = listener.local_addr().expect("it listens").port();
        let is_silent = said.is_none();
        let tls = if told.contains("encrypted") {
            "starttls"
        } else {
            "none"
        };
        let server = server_of_mail(port, &format!("tls = \"{tls}\"\nsend_timeout = \"1s\""), None);
        let talking = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            // The client may have gone by then.
            let _ = connection.write_all(&said.unwrap_or_default());
            if is_silent || tls == "starttls" {
                let _ = connection.read_to_end(&mut Vec::new());
            }
        });
        let failure = failure(&server, &to("a"));
        assert!(failure.starts_with(told), "{told}: {failure}");
        talking.join().expect("it has ended");
    }
    let gone = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let server = server_of_mail(gone.expect("a port is free").port(), "", None);
    let told = failure(&server, &to("a"));
    assert!(
        told.starts_with("failed: mail `office` failed: Connection refused"),
        "{told}"
    );
}

/// A Kafka cluster.
struct Kafka {
    process: Running,
    answers: BufReader<ChildStdout>,
    brokers: Vec<String>,
}

impl Kafka {
    fn start() -> Self {
        let (process, answers, brokers) = program("kafka.py", &[]);
        let brokers = serde_json::from_str(&brokers).expect("it says its brokers");
        Self {
            process,
            answers,
            brokers,
        }
    }

    fn ask(&mut self, order: &str) -> Value {
        let mut orders = self.process.0.stdin.as_ref().expect("it is piped");
        writeln!(orders, "{order}").expect("it reads");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("an answer")
    }
}

fn server_of_kafka(brokers: &[String], keys: &str) -> Server {
    let keys = format!(
        "allow = {{ kafka = [\"events\"] }}\n[kafka.events]\nbrokers = {brokers:?}\ntopics = [\"orders\", \"nowhere\"]\n{keys}"
    );
    let send = "const { name = 'events', topic = 'orders', value, ...options } = context.getArgs();
        const kafka = context.getDataService().obtainKafkaDSFacade(name);
        return kafka.publish(topic, value, options).then((published) => new ScriptResult(true, { published }), (error) => new ScriptResult(false, { code: error.code ?? error.name, message: error.message }));";
    rules(&keys, &[("send", send)]).start()
}

#[test]
fn records_are_published_and_acknowledged_where_kafkas_own_producers_put_them() {
    let mut kafka = Kafka::start();
    let server = server_of_kafka(&kafka.brokers[..1], "");
    let publish = |args: Value| values(&server, "send", &args)["published"].clone();
    let keys: Vec<String> = (0..20).map(|at| format!("key-{at}")).collect();
    let mut sent = Vec::new();
    for key in &keys {
        let published =
            publish(json!({"key": key, "value": {"of": key, "é": 1}, "headers": {"kind": "order é"}}));
        assert_eq!(published["topic"], "orders");
        sent.push(json!({
            "key": key, "value": json!({"of": key, "é": 1}).to_string(), "headers": [["kind", "order é"]],
            "partition": published["partition"], "offset": published["offset"],
        }));
    }
    let placed = kafka.ask(&format!("keys {}", keys.join(" ")));
    for record in &sent {
        let key = record["key"].as_str().expect("a text");
        assert_eq!(record["partition"], placed[key], "{key}");
    }
    // Without a key they go to the partitions in turn, and a list is published as a whole.
    let published = publish(json!({"value": ["a", null, 3, [4], "e", "f", "g", "h"]}));
    let list = published.as_array().expect("a list");
    for (value, place) in ["a", "", "3", "[4]", "e", "f", "g", "h"].iter().zip(list) {
        let value = if value.is_empty() {
            Value::Null
        } else {
            json!(value)
        };
        sent.push(json!({"key": null, "value": value, "headers": [], "partition": place["partition"], "offset": place["offset"]}));
    }
    let mut partitions: Vec<_> = list
        .iter()
        .filter_map(|place| place["partition"].as_i64())
        .collect();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 0, 1, 1, 2, 2, 3, 3]);
    let place = |record: &Value| (record["partition"].as_i64(), record["offset"].as_i64());
    sent.sort_by_key(place);
    assert_eq!(kafka.ask(&format!("read {}", sent.len())), json!(sent));
}

#[test]
fn records_that_kafka_does_not_take_are_errors_in_time() {
    let mut kafka = Kafka::start();
    let server = server_of_kafka(
        &kafka.brokers,
        "request_timeout = \"1s\"\nrecord_bytes_max = \"2KiB\"\nqueue_bytes_max = \"4KiB\"",
    );
    let long = "x".repeat(1500);
    for (args, told) in [
        (
            json!({"topic": "nowhere", "value": 1}),
            "refused: Kafka `events` refused: UNKNOWN_TOPIC_OR_PARTITION (topic `nowhere`)",
        ),
        (
            json!({"topic": "secrets", "value": 1}),
            "not_allowed: topic `secrets` may not be reached: `topics` of `[kafka.events]` names orders, nowhere",
        ),
        (
            json!({"name": "other", "value": 1}),
            "not_allowed: Kafka `other` may not be reached: `allow` of `[workflow]` names events in `kafka`",
        ),
        (
            json!({"value": "x".repeat(3000)}),
            "too_long: a record for topic `orders` of Kafka `events` is longer than 2048 bytes (record_bytes_max)",
        ),
        (
            json!({"value": [long, long, long]}),
            "refused: Kafka `events` refused: 0 bytes of records wait to be acknowledged already, and 4500 more are too many (queue_bytes_max 4096)",
        ),
        (
            json!({"value": []}),
            "operation: this is no operation of a client: 1 to 1000 records",
        ),
        (json!({"topic": "", "value": 1}), "TypeError: `topic` is a text"),
    ] {
        let failure = failure(&server, &args);
        assert!(failure.starts_with(told), "{told}: {failure}");
    }
    let published = |server: &Server| values(server, "send", &json!({"value": 1}))["published"].clone();
    assert_eq!(published(&server)["topic"], "orders");
    kafka.process.0.kill().expect("it runs");
    kafka.process.0.wait().expect("it has ended");
    let gone = failure(&server, &json!({"value": 1}));
    assert!(
        gone.starts_with("failed: Kafka `events` failed: no broker can be reached: 127.0.0.1:"),
        "{gone}"
    );

    // Responses of a broker to the first request: none, a closed connection, and nonsense.
    for (said, told) in [
        (
            None,
            "timeout: Kafka `events` has taken longer than 1s (request_timeout)",
        ),
        (
            Some(Vec::new()),
            "failed: Kafka `events` failed: no broker can be reached: ",
        ),
        (
            Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()),
            "failed: Kafka `events` failed: 127.0.0.1:",
        ),
        (
            Some([&[0, 0, 0, 8, 0, 0, 0, 1][..], &[255; 4]].concat()),
            "failed: Kafka `events` failed: 127.0.0.1:",
        ),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let broker = listener.local_addr().expect("it listens").to_string();
        let server = server_of_kafka(&[broker], "request_timeout = \"1s\"");
        let talking = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a connection");
            // The request arrives in one piece.
            let _ = connection.read(&mut [0; 1024]);
            if let Some(said) = &said {
                let _ = connection.write_all(said);
            }
            if said.is_none_or(|said| !said.is_empty()) {
                let _ = connection.read_to_end(&mut Vec::new());
            }
        });
        let failure = failure(&server, &json!({"value": 1}));
        assert!(failure.starts_with(told), "{told}: {failure}");
        talking.join().expect("it has ended");
    }
}
