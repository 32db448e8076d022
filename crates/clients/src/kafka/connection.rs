//! A connection to a broker, with one request in flight at a time.

#![allow(
    clippy::cast_possible_wrap,
    reason = "what is counted here is bounded by `queue_bytes_max`, which is 1 GiB at most"
)]

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use super::{
    KafkaBroker, KafkaLogin, KafkaOptions,
    codec::{Reader, Unreadable, Writer},
    metadata::error_name,
};
use crate::stream::{self, Wire};

/// Longest response. Metadata has some dozen bytes per partition.
const REPLY_BYTES_MAX: usize = 8 << 20;

/// A request type: API key and version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Api(i16, i16);

pub(super) const PRODUCE: Api = Api(0, 3);
pub(super) const METADATA: Api = Api(3, 4);
const SASL_HANDSHAKE: Api = Api(17, 1);
const SASL_AUTHENTICATE: Api = Api(36, 0);

/// Why there is no response; the connection must be closed.
#[derive(Debug)]
pub(super) enum ConnectionError {
    /// The connection failed.
    Broken(io::Error),
    /// The response is malformed.
    Unreadable,
    /// The broker refused the credentials.
    Refused(String),
}

impl From<io::Error> for ConnectionError {
    fn from(error: io::Error) -> Self {
        Self::Broken(error)
    }
}

impl From<Unreadable> for ConnectionError {
    fn from(_: Unreadable) -> Self {
        Self::Unreadable
    }
}

/// A connection. Dropping it in the middle of a request closes it.
pub(super) struct Connection {
    stream: BufReader<Wire>,
    /// Correlation id of the last request.
    number: i32,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and authenticates.
    pub(super) async fn open(broker: &KafkaBroker, options: &KafkaOptions) -> Result<Self, ConnectionError> {
        let wire = stream::connect(&broker.host, broker.port, options.is_encrypted).await?;
        let mut connection = Self {
            stream: BufReader::new(wire),
            number: 0,
        };
        if let Some(login) = &options.login {
            connection.log_in(login, &options.client_id).await?;
        }
        Ok(connection)
    }

    async fn log_in(&mut self, login: &KafkaLogin, client_id: &str) -> Result<(), ConnectionError> {
        let mut body = Writer::default();
        body.text("PLAIN");
        let reply = self.ask(SASL_HANDSHAKE, client_id, &body.0).await?;
        refused(Reader(&reply).int16()?, None)?;
        let mut body = Writer::default();
        body.bytes(format!("\0{}\0{}", login.user, login.password).as_bytes());
        let reply = self.ask(SASL_AUTHENTICATE, client_id, &body.0).await?;
        let mut reader = Reader(&reply);
        let error = reader.int16()?;
        refused(error, reader.text()?)
    }

    /// Sends a request and returns its response.
    pub(super) async fn ask(
        &mut self,
        api: Api,
        client_id: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, ConnectionError> {
        self.number = self.number.wrapping_add(1);
        let mut head = Writer::default();
        head.int16(api.0);
        head.int16(api.1);
        head.int32(self.number);
        head.text(client_id);
        let mut request = Writer::default();
        request.int32((head.0.len() + body.len()) as i32);
        request.0.extend_from_slice(&head.0);
        request.0.extend_from_slice(body);
        self.stream.write_all(&request.0).await?;
        self.stream.flush().await?;
        let length = usize::try_from(self.stream.read_i32().await?).map_err(|_| Unreadable)?;
        if !(4..=REPLY_BYTES_MAX).contains(&length) || self.stream.read_i32().await? != self.number {
            return Err(ConnectionError::Unreadable);
        }
        let mut reply = Vec::new();
        let rest = (length - 4) as u64;
        (&mut self.stream).take(rest).read_to_end(&mut reply).await?;
        if reply.len() as u64 != rest {
            return Err(ConnectionError::Broken(io::ErrorKind::UnexpectedEof.into()));
        }
        Ok(reply)
    }

    /// Whether the connection is idle: no unread bytes, and not closed by the broker.
    pub(super) async fn is_quiet(&mut self) -> bool {
        stream::is_quiet(&mut self.stream).await
    }
}

/// Turns a non-zero error code into an error.
fn refused(error: i16, told: Option<&str>) -> Result<(), ConnectionError> {
    if error == 0 {
        return Ok(());
    }
    let told = told.unwrap_or_default().chars().filter(|each| !each.is_control());
    let told: String = told.take(300).collect();
    Err(ConnectionError::Refused(
        format!("{} {told}", error_name(error)).trim().to_owned(),
    ))
}
