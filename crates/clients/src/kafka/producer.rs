//! Publishes the records of one thread to a cluster.

#![allow(
    clippy::cast_possible_wrap,
    reason = "what is counted here is bounded by `queue_bytes_max`, which is 1 GiB at most"
)]

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap},
    rc::Rc,
    time::{Duration, Instant, SystemTime},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{
    KafkaAcks, KafkaBroker, KafkaOptions,
    batch::{self, Record},
    codec::{Reader, Unreadable, Writer},
    connection::{Connection, ConnectionError, METADATA, PRODUCE},
    metadata::{self, LEADER_NOT_AVAILABLE, NOT_LEADER, Topic},
    partition,
};
use crate::ClientError;

/// How long cached metadata is used, unless a broker reports that it is out of date.
const KNOWN_FOR: Duration = Duration::from_mins(5);
/// Delay before records are retried.
const TRY_AGAIN: Duration = Duration::from_millis(100);
/// Limit on the records of one call, and on the headers of one record.
const COUNT_MAX: usize = 1000;

/// A record as rules pass it.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Draft {
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, String)>,
}

/// Publishes the records of one thread to a cluster.
#[derive(Debug)]
pub(crate) struct Producer {
    name: String,
    options: KafkaOptions,
    room: Semaphore,
    idle: RefCell<Vec<(KafkaBroker, Connection)>>,
    topics: RefCell<HashMap<String, (Instant, Rc<Topic>)>>,
    /// The next partition of records without a key, which rotate.
    turn: Cell<usize>,
    /// Bytes of unacknowledged records.
    waiting: Cell<usize>,
}

/// Bytes of unacknowledged records, subtracted again when this is dropped.
struct Waiting<'p>(&'p Cell<usize>, usize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - self.1);
    }
}

/// The handling of records that were not acknowledged.
enum Outcome {
    /// Retry: no broker has written them.
    Again(String),
    /// Report the error.
    Over(ClientError),
}

impl Producer {
    pub(crate) fn new(name: &str, options: KafkaOptions) -> Self {
        Self {
            name: name.to_owned(),
            room: Semaphore::new(options.connections_max),
            options,
            idle: RefCell::default(),
            topics: RefCell::default(),
            turn: Cell::new(0),
            waiting: Cell::new(0),
        }
    }

    /// Publishes records to a topic and waits for their acknowledgements. Returns a list of `{"topic", "partition", "offset"}` in the order of the records.
    pub(crate) async fn publish(&self, topic: &str, drafts: Vec<Draft>) -> Result<Value, ClientError> {
        let records = self.checked(topic, drafts)?;
        let length = records.iter().map(Record::length).sum();
        if self.waiting.get() + length > self.options.queue_bytes_max {
            return Err(ClientError::Refused {
                what: self.what(),
                reason: format!(
                    "{} bytes of records wait to be acknowledged already, and {length} more are too many (queue_bytes_max {})",
                    self.waiting.get(),
                    self.options.queue_bytes_max
                ),
            });
        }
        self.waiting.set(self.waiting.get() + length);
        let _waiting = Waiting(&self.waiting, length);
        let last = RefCell::new(None);
        let time = self.options.request_timeout;
        let published = timeout(time, self.publish_all(topic, &records, &last)).await;
        published.unwrap_or_else(|_| {
            Err(match last.take() {
                Some(reason) => self.failed(format!("{reason}, for {time:?} (request_timeout)")),
                None => ClientError::Time {
                    what: self.what(),
                    time,
                    limit: "request_timeout",
                },
            })
        })
    }

    fn checked(&self, topic: &str, drafts: Vec<Draft>) -> Result<Vec<Record>, ClientError> {
        if !self.options.topics.iter().any(|allowed| allowed == topic) {
            return Err(ClientError::NotNamed {
                what: format!("topic `{}`", topic.chars().take(249).collect::<String>()),
                place: format!("`topics` of `[kafka.{}]`", self.name),
                named: self.options.topics.clone(),
            });
        }
        let headers = drafts.iter().map(|draft| draft.headers.len()).max();
        if drafts.is_empty() || drafts.len() > COUNT_MAX || headers.unwrap_or(0) > COUNT_MAX {
            return Err(ClientError::Operation {
                reason: format!(
                    "1 to {COUNT_MAX} records are published at once, with {COUNT_MAX} headers each at most"
                ),
            });
        }
        let bytes_max = self.options.record_bytes_max;
        let records = drafts.into_iter().map(|Draft { key, value, headers }| {
            let record = Record { key, value, headers };
            if record.length() > bytes_max {
                return Err(ClientError::Long {
                    what: format!("a record for topic `{topic}` of {}", self.what()),
                    bytes_max,
                    limit: "record_bytes_max",
                });
            }
            Ok(record)
        });
        records.collect()
    }

    async fn publish_all(
        &self,
        topic: &str,
        records: &[Record],
        last: &RefCell<Option<String>>,
    ) -> Result<Value, ClientError> {
        // Partitions are chosen once: a record that is sent again goes where it was to go.
        let mut known = self.known(topic, last).await?;
        let count = known.leaders.len();
        let mut left: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, record) in records.iter().enumerate() {
            let partition = match &record.key {
                Some(key) => partition::of_key(key.as_bytes(), count),
                None => self.turn.replace(self.turn.get().wrapping_add(1)) % count,
            };
            left.entry(partition).or_default().push(at);
        }
        let mut places = vec![Value::Null; records.len()];
        while let Some((&partition, those)) = left.first_key_value() {
            let batch: Vec<&Record> = those.iter().map(|at| &records[*at]).collect();
            match self.produce(topic, partition, &known, &batch).await {
                Ok(offset) => {
                    for (each, at) in those.iter().enumerate() {
                        let offset = offset + each as i64;
                        places[*at] = json!({ "topic": topic, "partition": partition, "offset": offset });
                    }
                    left.pop_first();
                }
                Err(Outcome::Over(error)) => return Err(error),
                Err(Outcome::Again(reason)) => {
                    last.replace(Some(reason));
                    self.topics.borrow_mut().remove(topic);
                    sleep(TRY_AGAIN).await;
                    known = self.known(topic, last).await?;
                }
            }
        }
        Ok(places.into())
    }

    /// Publishes the records of one partition; returns the offset of the first.
    async fn produce(
        &self,
        topic: &str,
        partition: usize,
        known: &Topic,
        records: &[&Record],
    ) -> Result<i64, Outcome> {
        let nobody = || Outcome::Again(format!("nobody leads partition {partition} of topic `{topic}`"));
        let leader = known
            .leaders
            .get(partition)
            .and_then(Option::as_ref)
            .ok_or_else(nobody)?;
        let _place = self.room.acquire().await;
        let unreachable = |trouble| match trouble {
            // Nothing has been sent.
            ConnectionError::Broken(error) => Outcome::Again(format!("{leader} cannot be reached: {error}")),
            other => Outcome::Over(self.trouble(leader, other)),
        };
        let mut connection = self.connection(leader).await.map_err(unreachable)?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let batch = batch::write(records, now.map_or(0, |now| now.as_millis() as i64));
        let request = self.request(topic, partition, &batch);
        let asked = connection.ask(PRODUCE, &self.options.client_id, &request).await;
        let over = |trouble| Outcome::Over(self.trouble(leader, trouble));
        let reply = asked.map_err(over)?;
        let (error, offset) = acknowledged(&reply).map_err(|error| over(error.into()))?;
        self.rest(leader.clone(), connection);
        match error {
            0 => Ok(offset),
            NOT_LEADER | LEADER_NOT_AVAILABLE => Err(Outcome::Again(format!(
                "{leader} does not lead partition {partition} of topic `{topic}`"
            ))),
            other => Err(Outcome::Over(self.refused(topic, other))),
        }
    }

    fn request(&self, topic: &str, partition: usize, batch: &[u8]) -> Vec<u8> {
        let mut body = Writer::default();
        // No transaction.
        body.int16(-1);
        body.int16(match self.options.acks {
            KafkaAcks::All => -1,
            KafkaAcks::Leader => 1,
        });
        let time_ms = self.options.request_timeout.as_millis();
        body.int32(i32::try_from(time_ms).unwrap_or(i32::MAX));
        body.int32(1);
        body.text(topic);
        body.int32(1);
        body.int32(partition as i32);
        body.bytes(batch);
        body.0
    }

    /// Returns the leaders of a topic's partitions, from the cache or from the first broker that can be reached.
    async fn known(&self, topic: &str, last: &RefCell<Option<String>>) -> Result<Rc<Topic>, ClientError> {
        if let Some((until, known)) = self.topics.borrow().get(topic)
            && Instant::now() < *until
        {
            return Ok(Rc::clone(known));
        }
        loop {
            match self.ask_about(topic).await? {
                Ok(found) => {
                    let found = Rc::new(found);
                    let entry = (Instant::now() + KNOWN_FOR, Rc::clone(&found));
                    self.topics.borrow_mut().insert(topic.to_owned(), entry);
                    return Ok(found);
                }
                Err(LEADER_NOT_AVAILABLE) => {
                    last.replace(Some(format!("nobody leads topic `{topic}`")));
                    sleep(TRY_AGAIN).await;
                }
                Err(other) => return Err(self.refused(topic, other)),
            }
        }
    }

    async fn ask_about(&self, topic: &str) -> Result<Result<Topic, i16>, ClientError> {
        let _place = self.room.acquire().await;
        let mut reasons = Vec::new();
        for broker in &self.options.brokers {
            let asked = async {
                let mut connection = self.connection(broker).await?;
                let request = metadata::request(topic);
                let reply = connection
                    .ask(METADATA, &self.options.client_id, &request)
                    .await?;
                let read = metadata::read(&reply, topic)?;
                self.rest(broker.clone(), connection);
                Ok(read)
            };
            match asked.await {
                Ok(read) => return Ok(read),
                Err(ConnectionError::Broken(error)) => reasons.push(format!("{broker}: {error}")),
                Err(other) => return Err(self.trouble(broker, other)),
            }
        }
        Err(self.failed(format!("no broker can be reached: {}", reasons.join("; "))))
    }

    /// Takes an idle connection to a broker that is still open, or opens one.
    async fn connection(&self, broker: &KafkaBroker) -> Result<Connection, ConnectionError> {
        loop {
            let rested = {
                let mut idle = self.idle.borrow_mut();
                let at = idle.iter().rposition(|(of, _)| of == broker);
                at.map(|at| idle.remove(at).1)
            };
            let Some(mut connection) = rested else { break };
            if connection.is_quiet().await {
                return Ok(connection);
            }
        }
        Connection::open(broker, &self.options).await
    }

    /// Returns a connection to the idle ones. Above the limit, those that have been idle longest are closed.
    fn rest(&self, broker: KafkaBroker, connection: Connection) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() >= self.options.connections_max {
            idle.remove(0);
        }
        idle.push((broker, connection));
    }

    fn what(&self) -> String {
        format!("Kafka `{}`", self.name)
    }

    fn failed(&self, reason: String) -> ClientError {
        ClientError::Failed {
            what: self.what(),
            reason,
        }
    }

    fn refused(&self, topic: &str, error: i16) -> ClientError {
        ClientError::Refused {
            what: self.what(),
            reason: format!("{} (topic `{topic}`)", metadata::error_name(error)),
        }
    }

    fn trouble(&self, broker: &KafkaBroker, trouble: ConnectionError) -> ClientError {
        match trouble {
            ConnectionError::Broken(error) => self.failed(format!("{broker}: {error}")),
            ConnectionError::Unreadable => self.failed(format!("{broker} has replied what cannot be read")),
            ConnectionError::Refused(reason) => ClientError::Refused {
                what: self.what(),
                reason: format!("{reason} ({broker})"),
            },
        }
    }
}

/// The error code and base offset in a response about one partition.
pub(super) fn acknowledged(reply: &[u8]) -> Result<(i16, i64), Unreadable> {
    let topics = Reader(reply).list(|reader| {
        reader.text()?;
        reader.list(|reader| {
            reader.int32()?;
            let (error, offset) = (reader.int16()?, reader.int64()?);
            reader.int64()?;
            Ok((error, offset))
        })
    })?;
    topics.into_iter().flatten().next().ok_or(Unreadable)
}
