//! The leaders of a topic's partitions.

use std::collections::BTreeMap;

use super::{
    KafkaBroker,
    codec::{Reader, Unreadable, Writer},
};

/// Error code: the topic or partition has no leader at the moment.
pub(super) const LEADER_NOT_AVAILABLE: i16 = 5;
/// Error code: the broker is not, or no longer, the partition's leader.
pub(super) const NOT_LEADER: i16 = 6;

/// Longest name of a host (RFC 1035, 2.3.4). Each partition has a copy of its leader's.
const HOST_BYTES_MAX: usize = 255;

/// The partitions of a topic, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topic {
    /// The leader of each partition; `None` if it has none.
    pub(super) leaders: Vec<Option<KafkaBroker>>,
}

/// Encodes a request for one topic, without creating it.
pub(super) fn request(topic: &str) -> Vec<u8> {
    let mut body = Writer::default();
    body.int32(1);
    body.text(topic);
    body.int8(0);
    body.0
}

/// Decodes the response; the inner error is a broker's error code.
pub(super) fn read(reply: &[u8], topic: &str) -> Result<Result<Topic, i16>, Unreadable> {
    let mut reader = Reader(reply);
    reader.int32()?;
    let brokers = reader.list(|reader| {
        let number = reader.int32()?;
        let host = reader.text()?.filter(|host| host.len() <= HOST_BYTES_MAX);
        let host = host.ok_or(Unreadable)?.to_owned();
        let port = u16::try_from(reader.int32()?).map_err(|_| Unreadable)?;
        reader.text()?;
        Ok((number, KafkaBroker { host, port }))
    })?;
    reader.text()?;
    reader.int32()?;
    let topics = reader.list(|reader| {
        let error = reader.int16()?;
        let is_it = reader.text()? == Some(topic);
        reader.int8()?;
        let partitions = reader.list(|reader| {
            reader.int16()?;
            let (number, leader) = (reader.int32()?, reader.int32()?);
            reader.list(Reader::int32)?;
            reader.list(Reader::int32)?;
            Ok((number, leader))
        })?;
        Ok((error, is_it, partitions))
    })?;
    let found = topics.into_iter().find(|(_, is_it, _)| *is_it);
    let (error, _, mut partitions) = found.ok_or(Unreadable)?;
    if error != 0 {
        return Ok(Err(error));
    }
    partitions.sort_unstable();
    let mut numbered = partitions.iter().enumerate();
    if numbered.any(|(at, (number, _))| usize::try_from(*number) != Ok(at)) {
        return Err(Unreadable);
    }
    let brokers: BTreeMap<i32, KafkaBroker> = brokers.into_iter().collect();
    let leaders = partitions.iter().map(|(_, leader)| brokers.get(leader).cloned());
    let leaders: Vec<_> = leaders.collect();
    if leaders.is_empty() {
        return Ok(Err(LEADER_NOT_AVAILABLE));
    }
    Ok(Ok(Topic { leaders }))
}

/// The names of brokers' error codes.
pub(super) fn error_name(number: i16) -> String {
    let name = match number {
        2 => "CORRUPT_MESSAGE",
        3 => "UNKNOWN_TOPIC_OR_PARTITION",
        LEADER_NOT_AVAILABLE => "LEADER_NOT_AVAILABLE",
        NOT_LEADER => "NOT_LEADER_OR_FOLLOWER",
        7 => "REQUEST_TIMED_OUT",
        8 => "BROKER_NOT_AVAILABLE",
        10 => "MESSAGE_TOO_LARGE",
        13 => "NETWORK_EXCEPTION",
        17 => "INVALID_TOPIC_EXCEPTION",
        18 => "RECORD_LIST_TOO_LARGE",
        19 => "NOT_ENOUGH_REPLICAS",
        20 => "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        29 => "TOPIC_AUTHORIZATION_FAILED",
        31 => "CLUSTER_AUTHORIZATION_FAILED",
        33 => "UNSUPPORTED_SASL_MECHANISM",
        35 => "UNSUPPORTED_VERSION",
        44 => "POLICY_VIOLATION",
        56 => "KAFKA_STORAGE_ERROR",
        58 => "SASL_AUTHENTICATION_FAILED",
        87 => "INVALID_RECORD",
        _ => return format!("the error {number}"),
    };
    name.to_owned()
}
