//! What rules ask of other systems: an operation goes in as JSON, and its outcome comes out as JSON, within a time and a size.
//!
//! [`Clients`] are those of one thread, with its connections; a [`ClientSession`] is what one run has there, and gives back what the run holds when it ends.
//! Nothing may be reached that [`Options`] do not name. To add a client: a file with its options and what it does, a variant of `Operation`, an arm in `desk.rs`.

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
