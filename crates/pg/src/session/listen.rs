//! LISTEN operations of handlers.

use std::time::{Duration, Instant};

use super::{
    SqlSession, SqlSessionError, number, of,
    operation::{Hear, Listen},
};
use crate::{Heard, json::write_string};

impl SqlSession {
    /// `{"listen":1}`, once no notification can be missed any more.
    pub(super) async fn listen(&self, it: &Listen, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let source = self.source(&it.source)?;
        self.open.check_room()?;
        let listener = source.listen(&it.channel, deadline).await;
        let listener = listener.map_err(of(&it.source))?;
        Ok(number("listen", self.open.add_listener(listener)))
    }

    /// `{"heard":["payload",null]}`: null where notifications may be missing. Empty if none arrives within the
    /// operation's own `wait_ms`, however long its call may last: a response that streams notifications lasts as long
    /// as its client.
    pub(super) async fn hear(&self, it: &Hear) -> Result<Vec<u8>, SqlSessionError> {
        let listener = self.open.listener(it.listen)?;
        let wait = Duration::from_millis(it.wait_ms.into());
        let heard = tokio::time::timeout(wait, listener.hear()).await;
        let mut out = b"{\"heard\":[".to_vec();
        for (index, heard) in heard.unwrap_or_default().iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            match heard {
                Heard::Payload(payload) => write_string(payload.as_bytes(), &mut out),
                Heard::Lost => out.extend_from_slice(b"null"),
            }
        }
        out.extend_from_slice(b"]}");
        Ok(out)
    }
}
