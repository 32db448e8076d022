//! The connections of one thread to a Redis server.

use std::{cell::RefCell, time::Duration};

use serde_json::Value;
use tokio::{sync::Semaphore, time::timeout};

use super::{RedisOptions, connection::Connection, reply::ReplyError};
use crate::ClientError;

/// The connections of one thread to a Redis server. A connection that is dropped in the middle of a command is closed.
#[derive(Debug)]
pub(crate) struct Pool {
    /// The server's name in errors.
    what: String,
    options: RedisOptions,
    room: Semaphore,
    idle: RefCell<Vec<Connection>>,
}

impl Pool {
    pub(crate) fn new(name: &str, options: RedisOptions) -> Self {
        Self {
            what: format!("Redis `{name}`"),
            room: Semaphore::new(options.connections_max),
            options,
            idle: RefCell::default(),
        }
    }

    /// Executes a command within the command time limit.
    pub(crate) async fn run(&self, words: &[impl AsRef<str>]) -> Result<Value, ClientError> {
        let time = self.options.command_timeout;
        let late = |_| self.late(time, "command_timeout");
        timeout(time, self.run_on_one(words)).await.map_err(late)?
    }

    async fn run_on_one(&self, words: &[impl AsRef<str>]) -> Result<Value, ClientError> {
        let _place = self.room.acquire().await.map_err(|error| self.failed(&error))?;
        let mut connection = match self.rested().await {
            Some(connection) => connection,
            None => self.connect().await?,
        };
        let outcome = connection.run(words, self.options.reply_bytes_max).await;
        if let Ok(_) | Err(ReplyError::Refused(_)) = outcome {
            self.idle.borrow_mut().push(connection);
        }
        outcome.map_err(|error| self.error(error))
    }

    /// Takes an idle connection that is still open, or opens one.
    async fn rested(&self) -> Option<Connection> {
        loop {
            let mut connection = self.idle.borrow_mut().pop()?;
            if connection.is_quiet().await {
                return Some(connection);
            }
        }
    }

    async fn connect(&self) -> Result<Connection, ClientError> {
        let time = self.options.connect_timeout;
        let opening = Connection::open(&self.options.url, self.options.reply_bytes_max);
        match timeout(time, opening).await {
            Ok(opened) => opened.map_err(|error| self.error(error)),
            Err(_) => Err(self.late(time, "connect_timeout")),
        }
    }

    fn late(&self, time: Duration, limit: &'static str) -> ClientError {
        ClientError::Time {
            what: self.what.clone(),
            time,
            limit,
        }
    }

    pub(super) fn failed(&self, reason: &impl ToString) -> ClientError {
        ClientError::Failed {
            what: self.what.clone(),
            reason: reason.to_string(),
        }
    }

    fn error(&self, error: ReplyError) -> ClientError {
        let what = self.what.clone();
        match error {
            ReplyError::Refused(reason) => ClientError::Refused { what, reason },
            ReplyError::Long => ClientError::Long {
                what: format!("a reply of {what}"),
                bytes_max: self.options.reply_bytes_max,
                limit: "reply_bytes_max",
            },
            ReplyError::Broken(error) => self.failed(&error),
            ReplyError::Unreadable(reason) => self.failed(&format!("its reply cannot be read: {reason}")),
        }
    }
}
