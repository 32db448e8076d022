//! The connection that all listeners of a source share.

use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::{backend::Message, frontend};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Hub;
use crate::{
    PgError, Settings, Stage,
    pipelined::{Stream, start_unlimited},
    protocol::{foreign, next_message, server_error},
};

/// Size of the buffer for one read.
const READ_BYTES: usize = 16_384;

/// A connection that receives notifications.
pub(super) struct Line {
    stream: Stream,
    received: BytesMut,
    out: BytesMut,
    /// Time limit for the server's answer to a command.
    patience: Duration,
}

impl Line {
    pub(super) async fn connect(settings: &Settings) -> Result<Self, PgError> {
        let started = start_unlimited(settings).await?;
        Ok(Self {
            stream: started.stream,
            received: started.received,
            out: started.out,
            patience: settings.connect_timeout,
        })
    }

    /// Runs commands. Notifications that arrive meanwhile are delivered.
    pub(super) async fn run(&mut self, commands: &str, hub: &Hub) -> Result<(), PgError> {
        let limit = self.patience;
        let ended = tokio::time::timeout(limit, self.run_to_its_end(commands, hub)).await;
        ended.unwrap_or(Err(PgError::TimedOut {
            what: Stage::Statement,
            limit,
        }))
    }

    async fn run_to_its_end(&mut self, commands: &str, hub: &Hub) -> Result<(), PgError> {
        frontend::query(commands, &mut self.out).map_err(foreign)?;
        self.stream.write_all_buf(&mut self.out).await?;
        self.stream.flush().await?;
        let mut failed = None;
        loop {
            match self.message(hub).await? {
                Message::ReadyForQuery(_) => return failed.map_or(Ok(()), Err),
                Message::ErrorResponse(body) => {
                    failed = Some(PgError::Server(Box::new(server_error(body.fields())?)));
                }
                _ => {}
            }
        }
    }

    /// Receives and delivers notifications until the connection ends. The future may be dropped at any time.
    pub(super) async fn hear(&mut self, hub: &Hub) -> Result<(), PgError> {
        loop {
            if let Message::ErrorResponse(body) = self.message(hub).await? {
                return Err(PgError::Server(Box::new(server_error(body.fields())?)));
            }
        }
    }

    /// The next message other than a notification.
    async fn message(&mut self, hub: &Hub) -> Result<Message, PgError> {
        loop {
            match next_message(&mut self.received)? {
                Some(Message::NotificationResponse(body)) => {
                    let channel = body.channel().map_err(foreign)?;
                    hub.deliver(channel, body.message().map_err(foreign)?);
                }
                Some(message) => return Ok(message),
                None => {
                    self.received.reserve(READ_BYTES);
                    if self.stream.read_buf(&mut self.received).await? == 0 {
                        return Err(PgError::Broken {
                            reason: "the server has closed it".into(),
                        });
                    }
                }
            }
        }
    }
}
