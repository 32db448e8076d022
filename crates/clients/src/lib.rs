//! Clients of external systems for rules: an operation and its result are JSON, within limits of time and size.
//!
//! [`Clients`] belong to one thread and own its connections. A [`ClientSession`] belongs to one run and releases its locks when the run ends.
//! Only targets that [`Options`] name can be reached. To add a client: a file with its options and operations, a variant of `Operation`, an arm in `session.rs`.

mod error;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod kafka;
mod mail;
mod operation;
mod options;
mod process;
mod redis;
mod s3;
mod session;
mod stream;
mod token;
mod worker;

pub use error::ClientError;
pub use kafka::{KafkaAcks, KafkaBroker, KafkaLogin, KafkaOptions};
pub use mail::{
    AddressError as MailAddressError, MailLogin, MailOptions, MailSender, MailTls,
    Recipients as MailRecipients,
};
pub use options::Options;
pub use redis::{RedisOptions, RedisUrl, UrlError as RedisUrlError};
pub use s3::S3Options;
pub use session::{ClientSession, Clients};
pub use worker::{WorkerAnswer, WorkerRequest, Workers};
