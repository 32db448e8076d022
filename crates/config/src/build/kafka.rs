//! `[kafka.NAME]`

use forebay_clients::{KafkaAcks, KafkaBroker, KafkaLogin, KafkaOptions};

use super::Builder;
use crate::KafkaCluster;
use crate::fields::Fields;

/// Longest name of a topic or a client, in bytes.
const NAME_BYTES_MAX: usize = 249;

impl Builder<'_> {
    pub(super) fn kafka(&mut self, name: &str, fields: &Fields) -> KafkaCluster {
        self.check_name(name, "Kafka", fields);
        let mut brokers = Vec::new();
        for broker in fields.texts("brokers") {
            let (host, port) = broker.text.rsplit_once(':').unwrap_or_default();
            match port.parse() {
                Ok(port)
                    if !host.is_empty()
                        && !host.contains(|each: char| each.is_whitespace() || each == '/') =>
                {
                    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                    brokers.push(KafkaBroker { host, port });
                }
                _ => {
                    let message = format!("found {:?}, expected `host:port`", broker.text);
                    self.note(fields.problem_at(broker.line, "brokers", message));
                }
            }
        }
        for topic in fields.texts("topics") {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            if topic.text.is_empty() || topic.text.len() > NAME_BYTES_MAX || !topic.text.bytes().all(is_plain)
            {
                let message = format!(
                    "found {:?}, expected the name of a topic: 1 to {NAME_BYTES_MAX} letters, digits, `.`, `_` and `-`",
                    topic.text
                );
                self.note(fields.problem_at(topic.line, "topics", message));
            }
        }
        let client_id = fields.text("client_id").to_owned();
        if client_id.len() > NAME_BYTES_MAX {
            let message = format!("it has {} bytes, of at most {NAME_BYTES_MAX}", client_id.len());
            self.note(fields.problem("client_id", message));
        }
        let is_encrypted = fields.flag("tls");
        let (user, password) = self.login(fields, is_encrypted);
        let login = user.zip(password.as_ref());
        let login = login.map(|(user, password)| KafkaLogin {
            user: user.to_owned(),
            password: password.reveal().to_owned(),
        });
        let count = |key| usize::try_from(fields.integer(key)).unwrap_or(usize::MAX);
        let topics = fields.texts("topics").iter();
        let options = KafkaOptions {
            brokers,
            is_encrypted,
            login,
            client_id,
            topics: topics.map(|topic| topic.text.clone()).collect(),
            acks: match fields.text("acks") {
                "leader" => KafkaAcks::Leader,
                _ => KafkaAcks::All,
            },
            connections_max: count("connections_max"),
            request_timeout: fields.duration("request_timeout"),
            record_bytes_max: count("record_bytes_max"),
            queue_bytes_max: count("queue_bytes_max"),
        };
        KafkaCluster { password, options }
    }
}
