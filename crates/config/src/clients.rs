//! `[redis.NAME]`, `[s3.NAME]`, `[mail.NAME]`, `[kafka.NAME]`: what rules reach through `forebay_clients`

use std::time::Duration;

use forebay_clients::{
    KafkaAcks, KafkaBroker, KafkaLogin, KafkaOptions, MailLogin, MailOptions, MailRecipients, MailSender,
    MailTls, RedisOptions, RedisUrl, S3Options,
};

use crate::Secret;
use crate::build::Context;
use crate::fields::{Fields, Value};
use crate::key::{GIB, KIB, Key, Kind, at_least};
use crate::print::{Table, texts};
use crate::section::{Entry, Setting, section, words};
use crate::setting::{Text, parsed, text_settings};

/// Longest name of a topic or a client of Kafka, in bytes.
const NAME_BYTES_MAX: usize = 249;

section! {
    /// A server of Redis, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.
    for RedisOptions {
        /// The server, who connects, and the database: `redis://user:password@host:6379/0`, or with `rediss:` encrypted, for a server whose
        /// certificate is of an authority that the system trusts. What is not plain in a part is percent-encoded; a secret is best
        /// `${NAME}`.
        url: RedisUrl,
        /// Connections of each executor thread, made when they are needed. A command has one to itself.
        connections_max: usize as integer(1, 1_000) = "4" => "the next command waits",
        /// From the beginning of a connection to its first command.
        connect_timeout: Duration as TIMEOUT = "5s" => "the command fails",
        /// From a command to the end of its reply, waiting for a connection included.
        command_timeout: Duration as TIMEOUT = "5s" => "the command fails, and its connection is closed",
        /// Longest reply. Each of its parts counts for 32 bytes besides.
        reply_bytes_max: usize as size(KIB, GIB) = "8MiB" => "the command fails, and its connection is closed",
    }
}

section! {
    /// A bucket of S3, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[check(S3Bucket::check)]
    pub struct S3Bucket {
        /// The server, such as `https://s3.eu-central-1.amazonaws.com`. Paths there begin with the name of the bucket.
        endpoint: String,
        /// The region that requests are signed for.
        region: String = "us-east-1",
        /// The bucket.
        bucket: String,
        /// The access key id of requests.
        access_key: String,
        /// The name of the environment variable that has the secret of `access_key`.
        secret_key: Secret,
    }
}

section! {
    /// A server of mail, for rules. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[rules(MailServer::rules)]
    #[check(MailServer::check)]
    pub struct MailServer {
        /// The server of SMTP that takes messages.
        host: String,
        /// Its port; without one, that of `tls`: 587 for `starttls`, 465 for `implicit`, 25 for `none`.
        port: Option<u16> as integer(1, 65_535),
        /// How connections are encrypted: after their first words (`starttls`; a server that does not offer that is refused), from the
        /// beginning, or not at all. The server has a certificate of an authority that the system trusts.
        tls: MailTls = "starttls",
        /// The user name, for servers that ask for one. It needs `password`, and TLS.
        user: Option<String>,
        /// The name of the environment variable that has the password of `user`.
        password: Option<Secret>,
        /// The sender of every message: `shop@example.org`, or `Shop <shop@example.org>`.
        from: MailSender,
        /// Permitted recipients: addresses, `*@example.org` for all of a domain, or `*` for any.
        to: MailRecipients as at_least(1),
        /// Connections of each executor thread. A message has one to itself.
        connections_max: usize as integer(1, 1_000) = "4" => "the next message waits",
        /// From a message to the server's reply that it has been taken, waiting for a connection included.
        send_timeout: Duration as TIMEOUT = "30s" => "sending fails",
        /// Longest message, as it is sent.
        message_bytes_max: usize as size(KIB, GIB) = "1MiB" => "sending fails",
        /// Recipients of one message, those of copies included.
        recipients_max: usize as integer(1, 1_000) = "50" => "sending fails",
    }
}

section! {
    /// A cluster of Kafka, which rules publish to. NAME has 1 to 64 letters, digits, `-` and `_`.
    #[rules(KafkaCluster::rules)]
    pub struct KafkaCluster {
        /// Some brokers of the cluster, `host:port`, which are asked for the others.
        brokers: Vec<KafkaBroker> as at_least(1),
        /// Connections are encrypted; brokers have certificates of an authority that the system trusts.
        tls: bool = "false",
        /// The user name (SASL PLAIN). It needs `password` and `tls = true`.
        user: Option<String>,
        /// The name of the environment variable that has the password of `user`.
        password: Option<Secret>,
        /// As brokers know who asks, at most 249 bytes.
        client_id: String = "forebay",
        /// Topics that may be published to.
        topics: Vec<String> as at_least(1),
        /// The replicas that must have a record before it is acknowledged: all that are in sync, or the leader of its partition.
        acks: KafkaAcks = "all",
        /// Connections of each executor thread. A request has one to itself.
        connections_max: usize as integer(1, 1_000) = "8" => "the next request waits",
        /// From records to their acknowledgement, waiting for a connection and for a leader included.
        request_timeout: Duration as TIMEOUT = "5s" => "publishing fails",
        /// Longest record: its key, value and headers. Brokers have a limit of their own (`message.max.bytes`).
        record_bytes_max: usize as size(KIB, GIB) = "1MiB" => "publishing fails",
        /// Bytes of all records of an executor thread that wait to be acknowledged.
        queue_bytes_max: usize as size(KIB, GIB) = "32MiB" => "publishing fails at once",
    }
}

words! {
    for MailTls {
        StartTls = "starttls",
        Implicit = "implicit",
        None = "none",
    }
}

words! {
    for KafkaAcks {
        All = "all",
        Leader = "leader",
    }
}

impl S3Bucket {
    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if let Err(reason) = self.parse() {
            let message = format!("what is written there is no address of a server: {reason}");
            context.note(fields.problem("endpoint", message));
        }
    }

    /// As the client takes them.
    pub fn options(&self) -> S3Options {
        self.parse().expect("the endpoint was checked")
    }

    fn parse(&self) -> Result<S3Options, String> {
        let secret = self.secret_key.reveal();
        S3Options::new(
            &self.endpoint,
            &self.region,
            &self.bucket,
            &self.access_key,
            secret,
        )
    }
}

impl MailServer {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let host = fields.text("host").unwrap_or_default();
        if host.is_empty() || host.contains(|each: char| each.is_whitespace() || each == '/') {
            context.note(fields.problem("host", format!("found {host:?}, expected the name of a server")));
        }
        check_login(fields.text("tls") != Some("none"), fields, context);
    }

    fn check(&mut self, _: &Fields, _: &mut Context<'_>) {
        self.port.get_or_insert(match self.tls {
            MailTls::StartTls => 587,
            MailTls::Implicit => 465,
            MailTls::None => 25,
        });
    }

    /// As the client takes them.
    pub fn options(&self) -> MailOptions {
        MailOptions {
            host: self.host.clone(),
            port: self.port.expect("the check fills it in"),
            tls: self.tls,
            login: login(self.user.as_ref(), self.password.as_ref())
                .map(|(user, password)| MailLogin { user, password }),
            from: self.from.clone(),
            to: self.to.clone(),
            connections_max: self.connections_max,
            send_timeout: self.send_timeout,
            message_bytes_max: self.message_bytes_max,
            recipients_max: self.recipients_max,
        }
    }
}

impl KafkaCluster {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        for topic in fields.texts("topics") {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            let name = &topic.text;
            if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
                let message = format!(
                    "found {name:?}, expected the name of a topic: 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`"
                );
                context.note(fields.problem_at(topic.line, "topics", message));
            }
        }
        let bytes = fields.text("client_id").map_or(0, str::len);
        if bytes > NAME_BYTES_MAX {
            let message = format!("it has {bytes} bytes, of at most {NAME_BYTES_MAX}");
            context.note(fields.problem("client_id", message));
        }
        check_login(
            matches!(fields.value("tls"), Some(Value::Flag(true))),
            fields,
            context,
        );
    }

    /// As the client takes them.
    pub fn options(&self) -> KafkaOptions {
        KafkaOptions {
            brokers: self.brokers.clone(),
            is_encrypted: self.tls,
            login: login(self.user.as_ref(), self.password.as_ref())
                .map(|(user, password)| KafkaLogin { user, password }),
            client_id: self.client_id.clone(),
            topics: self.topics.clone(),
            acks: self.acks,
            connections_max: self.connections_max,
            request_timeout: self.request_timeout,
            record_bytes_max: self.record_bytes_max,
            queue_bytes_max: self.queue_bytes_max,
        }
    }
}

/// Checks that both user and password are given or neither, and only with an encrypted connection.
fn check_login(is_encrypted: bool, fields: &Fields, context: &mut Context<'_>) {
    if fields.has("user") != fields.has("password") {
        let message = "`user` and `password` are written together, or neither of them";
        context.note(fields.problem("user", message));
    }
    if !is_encrypted && fields.has("user") {
        let message = "a password is sent over connections that are encrypted alone (`tls`)";
        context.note(fields.problem("user", message));
    }
}

fn login(user: Option<&String>, password: Option<&Secret>) -> Option<(String, String)> {
    Some((user?.clone(), password?.reveal().to_owned()))
}

parsed!("": MailSender);
// A URL may contain a password, so the errors do not repeat it.
parsed!("what is written there ": RedisUrl);

impl Text for KafkaBroker {
    fn parse<'f>(written: &str, line: usize, entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let (host, port) = written.rsplit_once(':').unwrap_or_default();
        match port.parse() {
            Ok(port)
                if !host.is_empty() && !host.contains(|each: char| each.is_whitespace() || each == '/') =>
            {
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some(Self { host, port })
            }
            _ => {
                entry.note(context, line, format!("found {written:?}, expected `host:port`"));
                None
            }
        }
    }

    fn to_text(&self) -> String {
        self.to_string()
    }
}
text_settings!(KafkaBroker);

impl Setting for MailRecipients {
    const KIND: Kind = at_least(1);

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let mut recipients = Self::default();
        for pattern in entry.texts(context)? {
            if let Err(error) = recipients.allow(&pattern.text) {
                let message = format!("{error}; `*@example.org` is all of a domain, and `*` is everybody");
                entry.note(context, pattern.line, message);
            }
        }
        Some(recipients)
    }

    fn print(&self, key: &Key, out: &mut Table) {
        out.put(key.name, &texts(self.texts().iter()));
    }
}
