//! COPY operations of handlers, in and out.

use std::{sync::Arc, time::Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::Mutex as Turns;

use super::{
    SqlSession, SqlSessionError, number, of,
    open::{Copied, Copying, turn},
    operation::{CopyDone, CopyIn, CopyOut, CopyRead, CopySend, Id},
    write,
};
use crate::{PgError, json::write_string};

/// Most bytes of one piece when copying out; pieces that have already arrived are joined up to this.
const PIECE_BYTES: usize = 65_536;

impl SqlSession {
    /// `{"copy":1}`
    pub(super) async fn copy_in(&self, it: &CopyIn, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let source = self.source(&it.source)?;
        self.open.check_room()?;
        let copying = if let Some(id) = it.transaction {
            let mut turn = self.open.transaction(id, deadline).await?;
            let begun = turn.ready(id, deadline)?.copy_in(&it.text).await;
            begun.map_err(of(&it.source))?;
            Copying::InWithin(id)
        } else {
            let begun = source.copy_in(&it.text, deadline).await;
            Copying::In(Arc::new(Turns::new(Copied {
                source: it.source.clone(),
                copy: Some(begun.map_err(of(&it.source))?),
            })))
        };
        Ok(number("copy", self.open.add_copying(copying)))
    }

    /// `{}`, once the server can accept more.
    pub(super) async fn copy_send(
        &self,
        it: CopySend,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let id = it.copy;
        let bytes = it.data()?;
        let sent = match self.open.copying(id)? {
            Copying::In(copied) => {
                let mut copied = turn(Some(copied), id, deadline).await?;
                let source = copied.source.clone();
                let copy = copied.copy.as_mut().ok_or(SqlSessionError::NotOpen { id })?;
                copy.set_deadline(deadline);
                copy.send(&bytes).await.map_err(of(&source))
            }
            Copying::InWithin(transaction) => {
                let mut turn = self.open.transaction(transaction, deadline).await?;
                let source = turn.source.clone();
                let sent = turn.ready(transaction, deadline)?.copy_bytes(&bytes).await;
                sent.map_err(of(&source))
            }
            Copying::Out(_) | Copying::OutWithin(..) => Err(SqlSessionError::NotOpen { id }),
        };
        if sent.is_err() {
            self.open.end_copying(id);
        }
        sent.map(|()| b"{}".to_vec())
    }

    /// `{"count":1}`
    pub(super) async fn copy_done(
        &self,
        it: &CopyDone,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let not_open = || SqlSessionError::NotOpen { id: it.copy };
        let count = match self.open.end_copying(it.copy).ok_or_else(not_open)? {
            Copying::In(copied) => {
                let mut copied = turn(Some(copied), it.copy, deadline).await?;
                let mut copy = copied.copy.take().ok_or_else(not_open)?;
                copy.set_deadline(deadline);
                copy.finish().await.map_err(of(&copied.source))?
            }
            Copying::InWithin(id) => {
                let mut turn = self.open.transaction(id, deadline).await?;
                let source = turn.source.clone();
                let done = turn.ready(id, deadline)?.copy_done().await;
                done.map_err(of(&source))?
            }
            Copying::Out(_) | Copying::OutWithin(..) => return Err(not_open()),
        };
        Ok(format!("{{\"count\":{count}}}").into_bytes())
    }

    /// `{"copy":1,"binary":false}`
    pub(super) async fn copy_out(&self, it: &CopyOut, deadline: Instant) -> Result<Vec<u8>, SqlSessionError> {
        let source = self.source(&it.source)?;
        self.open.check_room()?;
        let (copying, is_binary) = if let Some(id) = it.transaction {
            let mut turn = self.open.transaction(id, deadline).await?;
            let begun = turn.ready(id, deadline)?.copy_out(&it.text).await;
            let is_binary = begun.map_err(of(&it.source))?;
            (Copying::OutWithin(id, is_binary), is_binary)
        } else {
            let begun = source.copy_out(&it.text, deadline).await;
            let copy = begun.map_err(of(&it.source))?;
            let is_binary = copy.is_binary();
            let copied = Copied {
                source: it.source.clone(),
                copy: Some(copy),
            };
            (Copying::Out(Arc::new(Turns::new(copied))), is_binary)
        };
        let id = self.open.add_copying(copying);
        Ok(format!("{{\"copy\":{id},\"binary\":{is_binary}}}").into_bytes())
    }

    /// `{"text":"..."}`, or for binary data `{"bytes":"\\x..."}`; `{}` after the last.
    pub(super) async fn copy_read(
        &self,
        it: &CopyRead,
        deadline: Instant,
    ) -> Result<Vec<u8>, SqlSessionError> {
        let read = match self.open.copying(it.copy)? {
            Copying::Out(copied) => {
                let mut copied = turn(Some(copied), it.copy, deadline).await?;
                let source = copied.source.clone();
                let copy = copied
                    .copy
                    .as_mut()
                    .ok_or(SqlSessionError::NotOpen { id: it.copy })?;
                copy.set_deadline(deadline);
                let is_binary = copy.is_binary();
                let first = copy.next().await;
                gathered(first, || copy.next_already())
                    .map(|bytes| (bytes, is_binary))
                    .map_err(of(&source))
            }
            Copying::OutWithin(id, is_binary) => {
                let mut turn = self.open.transaction(id, deadline).await?;
                let source = turn.source.clone();
                let transaction = turn.ready(id, deadline)?;
                let first = transaction.copied().await;
                gathered(first, || transaction.copied_already())
                    .map(|bytes| (bytes, is_binary))
                    .map_err(of(&source))
            }
            Copying::In(_) | Copying::InWithin(_) => Err(SqlSessionError::NotOpen { id: it.copy }),
        };
        if !matches!(read, Ok((Some(_), _))) {
            self.open.end_copying(it.copy);
        }
        let (bytes, is_binary) = read?;
        Ok(bytes.map_or_else(|| b"{}".to_vec(), |bytes| piece(&bytes, is_binary)))
    }

    /// Ends a copy early; not an error if it has already ended.
    pub(super) async fn close_copy(&self, id: Id, deadline: Instant) -> Result<(), SqlSessionError> {
        let ended = self.open.end_copying(id);
        if let Some(Copying::InWithin(transaction) | Copying::OutWithin(transaction, _)) = ended
            && let Ok(mut turn) = self.open.transaction(transaction, deadline).await
        {
            let source = turn.source.clone();
            let ended = turn.ready(transaction, deadline)?.copy_ended().await;
            ended.map_err(of(&source))?;
        }
        Ok(())
    }
}

/// The first bytes, joined with further ones that have already arrived.
fn gathered(
    first: Result<Option<Bytes>, PgError>,
    mut next: impl FnMut() -> Option<Bytes>,
) -> Result<Option<Bytes>, PgError> {
    let Some(first) = first? else { return Ok(None) };
    let Some(second) = next() else {
        return Ok(Some(first));
    };
    let mut all = BytesMut::from(&*first);
    all.extend_from_slice(&second);
    while all.len() < PIECE_BYTES
        && let Some(more) = next()
    {
        all.extend_from_slice(&more);
    }
    Ok(Some(all.freeze()))
}

fn piece(bytes: &[u8], is_binary: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 16);
    if is_binary {
        out.extend_from_slice(b"{\"bytes\":");
        write::hex(bytes, &mut out);
    } else {
        out.extend_from_slice(b"{\"text\":");
        write_string(bytes, &mut out);
    }
    out.push(b'}');
    out
}
