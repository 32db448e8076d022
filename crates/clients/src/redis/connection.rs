//! A connection to a Redis server, with one command in flight at a time.

use serde_json::Value;
use tokio::io::{AsyncWriteExt as _, BufReader};

use super::{
    RedisUrl,
    reply::{self, ReplyError},
};
use crate::stream::{self, Wire};

/// A connection. Dropping it in the middle of a command closes it.
pub(super) struct Connection {
    stream: BufReader<Wire>,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects, authenticates and selects the database.
    pub(super) async fn open(url: &RedisUrl, reply_bytes_max: usize) -> Result<Self, ReplyError> {
        let stream = stream::connect(&url.host, url.port, url.is_encrypted).await?;
        let mut connection = Self {
            stream: BufReader::new(stream),
        };
        if let Some((user, password)) = url.login() {
            // Servers before version 6 know no users.
            let words: &[&str] = match user {
                "default" => &["AUTH", password],
                user => &["AUTH", user, password],
            };
            connection.run(words, reply_bytes_max).await?;
        }
        if url.database != 0 {
            let number = url.database.to_string();
            connection.run(&["SELECT", &number], reply_bytes_max).await?;
        }
        Ok(connection)
    }

    /// Executes a command.
    pub(super) async fn run(
        &mut self,
        words: &[impl AsRef<str>],
        reply_bytes_max: usize,
    ) -> Result<Value, ReplyError> {
        let length: usize = words.iter().map(|word| word.as_ref().len() + 32).sum();
        let mut command = Vec::with_capacity(length);
        command.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
        for word in words {
            let word = word.as_ref();
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word.as_bytes());
            command.extend_from_slice(b"\r\n");
        }
        self.stream.write_all(&command).await?;
        self.stream.flush().await?;
        reply::read(&mut self.stream, reply_bytes_max).await
    }

    /// Whether the connection is idle: no unread bytes, and not closed by the server.
    pub(super) async fn is_quiet(&mut self) -> bool {
        stream::is_quiet(&mut self.stream).await
    }
}
