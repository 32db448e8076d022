//! Kafka: records that are published, each acknowledged with its partition and offset.
//!
//! Four requests of the protocol are spoken (kafka.apache.org, "Kafka protocol guide"): who leads a topic's partitions (Metadata 4), batches of records (Produce 3, record format 2), and who connects (`SaslHandshake` 1,
//! `SaslAuthenticate` 0). A record is never sent twice by itself: it is sent again only where nothing had been sent, or the broker says that it has not been written.

mod batch;
mod codec;
mod connection;
mod metadata;
mod partition;
mod producer;

pub(crate) use producer::{Draft, Producer};

use std::{fmt, time::Duration};

/// Who has to have written a record until it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaAcks {
    /// All replicas that keep up.
    All,
    /// The leader of its partition.
    Leader,
}

/// Who connects to brokers (SASL PLAIN).
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaLogin {
    /// The user.
    pub user: String,
    /// Its password.
    pub password: String,
}

impl fmt::Debug for KafkaLogin {
    /// Without the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KafkaLogin")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// A broker's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KafkaBroker {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for KafkaBroker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

/// Some brokers of a cluster, and what bounds its use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaOptions {
    /// Those that are asked for the others.
    pub brokers: Vec<KafkaBroker>,
    /// Whether connections to them are encrypted.
    pub is_encrypted: bool,
    /// Who connects; none: it is not said.
    pub login: Option<KafkaLogin>,
    /// As brokers know who asks.
    pub client_id: String,
    /// Topics that may be published to.
    pub topics: Vec<String>,
    /// Who has to have written a record.
    pub acks: KafkaAcks,
    /// Connections of one thread.
    pub connections_max: usize,
    /// From a record to its acknowledgement.
    pub request_timeout: Duration,
    /// Longest record: key, value and headers.
    pub record_bytes_max: usize,
    /// Bytes of all records of one thread that wait to be acknowledged.
    pub queue_bytes_max: usize,
}
