//! Kafka producer: publishes records, each acknowledged with its partition and offset.
//!
//! It uses four requests of the protocol (kafka.apache.org, "Kafka protocol guide"): Metadata 4 for the leaders of a topic's partitions, Produce 3 with record format 2, `SaslHandshake` 1,
//! and `SaslAuthenticate` 0.
//! A record is sent again only if nothing was sent, or if the broker reports that it was not written, so that no record is duplicated.

mod batch;
mod codec;
mod connection;
mod metadata;
mod partition;
mod producer;

pub(crate) use producer::{Draft, Producer};

/// Decodes a broker's replies about the topic `t` and about a record, and returns the bytes of the leaders' names.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn read_replies(bytes: &[u8]) -> usize {
    let _ = producer::acknowledged(bytes);
    let Ok(Ok(topic)) = metadata::read(bytes, "t") else {
        return 0;
    };
    topic
        .leaders
        .iter()
        .flatten()
        .map(|broker| broker.host.len())
        .sum()
}

use std::{fmt, time::Duration};

/// Which replicas must have written a record before it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KafkaAcks {
    /// All in-sync replicas.
    All,
    /// Only the partition's leader.
    Leader,
}

/// Credentials for brokers (SASL PLAIN).
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaLogin {
    /// The SASL user name.
    pub user: String,
    /// Sent in clear text inside the connection, so it should be encrypted.
    pub password: String,
}

impl fmt::Debug for KafkaLogin {
    /// Omits the password.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("KafkaLogin")
            .field("user", &self.user)
            .finish_non_exhaustive()
    }
}

/// The address of a broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KafkaBroker {
    /// DNS name or IP address.
    pub host: String,
    /// TCP port.
    pub port: u16,
}

impl fmt::Display for KafkaBroker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}", self.host, self.port)
    }
}

/// A cluster: bootstrap brokers, credentials and limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaOptions {
    /// Bootstrap brokers, which name all others.
    pub brokers: Vec<KafkaBroker>,
    /// Whether connections use TLS.
    pub is_encrypted: bool,
    /// Credentials; `None` connects without authentication.
    pub login: Option<KafkaLogin>,
    /// The `client.id` that brokers log.
    pub client_id: String,
    /// Topics to which rules may publish.
    pub topics: Vec<String>,
    /// The required acknowledgement.
    pub acks: KafkaAcks,
    /// Connections per thread.
    pub connections_max: usize,
    /// Time limit from publishing a record to its acknowledgement.
    pub request_timeout: Duration,
    /// Longest record in bytes: key, value and headers.
    pub record_bytes_max: usize,
    /// Limit on the bytes of unacknowledged records per thread.
    pub queue_bytes_max: usize,
}
