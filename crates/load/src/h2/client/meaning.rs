//! What a whole frame means, but for those of bodies.

use super::{
    Broken, Class, Client, Event, HEAD_BYTES_MAX, Head, STREAM_MAX, Section, Stage, TOO_LONG, frame,
    malformed,
};

impl Client {
    pub(super) fn take(&mut self, head: Head, payload: &[u8]) -> Result<Option<Event>, Broken> {
        let of_connection = matches!(head.kind, frame::SETTINGS | frame::PING | frame::GOAWAY);
        if of_connection != (head.stream == 0)
            && head.kind <= frame::CONTINUATION
            && head.kind != frame::WINDOW_UPDATE
        {
            return Err(malformed(
                "a frame has a stream's number where none belongs, or none where one does",
            ));
        }
        match head.kind {
            frame::HEADERS => self.headers(head, payload),
            frame::CONTINUATION => self.continuation(head, payload),
            frame::SETTINGS => self.settings(head, payload),
            frame::PING => {
                if payload.len() != 8 {
                    return Err(malformed("a PING frame has not 8 octets"));
                }
                if !head.has(frame::ACK) {
                    frame::put(&mut self.out, frame::PING, frame::ACK, 0, payload);
                }
                Ok(None)
            }
            frame::RST_STREAM => {
                let code =
                    frame::number(payload).filter(|_| payload.len() == 4 && !self.is_idle(head.stream));
                let code = code.ok_or(malformed("a RST_STREAM frame is none"))?;
                Ok(self.place(head.stream).map(|place| {
                    self.remove(place);
                    Event::Lost {
                        place,
                        class: Class::Reset,
                        what: format!("the server reset the stream: {}", frame::error_name(code)),
                    }
                }))
            }
            frame::GOAWAY => {
                let (Some(last), Some(code)) =
                    (frame::number(payload), payload.get(4..).and_then(frame::number))
                else {
                    return Err(malformed("a GOAWAY frame is too short"));
                };
                let last = last & STREAM_MAX;
                self.stage = Stage::GoingAway;
                let place = self.streams.partition_point(|stream| stream.id <= last);
                for _ in place..self.streams.len() {
                    self.remove(place);
                }
                let name = frame::error_name(code);
                let shown = String::from_utf8_lossy(&payload[8..payload.len().min(128)]);
                let because = if shown.is_empty() {
                    String::new()
                } else {
                    format!(", {}", shown.escape_debug())
                };
                Ok(Some(Event::GoesAway {
                    place,
                    what: format!("the server goes away ({name}{because}) and has not looked at the request"),
                }))
            }
            frame::WINDOW_UPDATE => self.window_update(head, payload),
            frame::PUSH_PROMISE => Err(malformed("the server pushes, though it was told not to")),
            // Priorities, and frames that are not known, mean nothing (RFC 9113, 5.3.2 and 5.5).
            _ => Ok(None),
        }
    }

    fn headers(&mut self, head: Head, payload: &[u8]) -> Result<Option<Event>, Broken> {
        if self.is_idle(head.stream) {
            return Err(malformed("an answer came on a stream that was never opened"));
        }
        let mut block = payload;
        let too_short = malformed("a HEADERS frame is too short");
        if head.has(frame::PADDED) {
            let (&padding, rest) = block.split_first().ok_or(too_short.clone())?;
            let length = rest.len().checked_sub(usize::from(padding));
            block = &rest[..length.ok_or(malformed("the padding of a frame is longer than the frame"))?];
        }
        if head.has(frame::WITH_PRIORITY) {
            block = block.get(5..).ok_or(too_short)?;
        }
        let (ends, wire_bytes) = (
            head.has(frame::END_STREAM),
            (frame::HEAD_BYTES + head.length) as u64,
        );
        if head.has(frame::END_HEADERS) {
            return self.section(head.stream, block, ends, wire_bytes);
        }
        self.block.stream = head.stream;
        self.block.ends = ends;
        self.block.wire_bytes = wire_bytes;
        self.block.bytes.extend_from_slice(block);
        Ok(None)
    }

    fn continuation(&mut self, head: Head, payload: &[u8]) -> Result<Option<Event>, Broken> {
        if self.block.bytes.len() + payload.len() > HEAD_BYTES_MAX {
            return Err(TOO_LONG);
        }
        self.block.bytes.extend_from_slice(payload);
        self.block.wire_bytes += (frame::HEAD_BYTES + head.length) as u64;
        if self.block.wire_bytes > 2 * HEAD_BYTES_MAX as u64 {
            // So many frames with next to nothing in them.
            return Err(TOO_LONG);
        }
        if !head.has(frame::END_HEADERS) {
            return Ok(None);
        }
        let block = std::mem::take(&mut self.block);
        self.section(block.stream, &block.bytes, block.ends, block.wire_bytes)
    }

    /// A whole header section: an interim head, the head, or trailers.
    fn section(
        &mut self,
        id: u32,
        block: &[u8],
        ends: bool,
        wire_bytes: u64,
    ) -> Result<Option<Event>, Broken> {
        let Some(place) = self.place(id) else {
            // It changes the table that later blocks refer to.
            Section::read(&mut self.decoder, block, None)?;
            self.unasked()?;
            return Ok(None);
        };
        let stream = &mut self.streams[place];
        if stream.answer.wire_bytes == 0 {
            stream.began = self.now;
        }
        stream.heard = self.now;
        stream.answer.wire_bytes += wire_bytes;
        let trailers = stream.answer.status != 0;
        let kept = stream.kept.as_mut().filter(|_| !trailers).map(|kept| {
            kept.head.clear();
            &mut kept.head
        });
        let section = Section::read(&mut self.decoder, block, kept)?;
        let wrong = match (section.wrong, section.status) {
            (Some(wrong), _) => Some(wrong),
            (None, Some(_)) if trailers => Some("the trailers of an answer have a status"),
            (None, None) if trailers && !ends => Some("an answer goes on after its trailers"),
            (None, None) if !trailers => Some("an answer has no status"),
            (None, Some(101)) => Some("an answer has status 101, which HTTP/2 has not"),
            (None, Some(..200)) if ends => Some("an interim answer is the last one"),
            _ => None,
        };
        if let Some(what) = wrong {
            self.remove(place);
            if !ends {
                self.reset(id, frame::PROTOCOL_ERROR);
            }
            return Ok(Some(Event::Lost {
                place,
                class: Class::Malformed,
                what: what.into(),
            }));
        }
        if let Some(status @ 200..) = section.status {
            stream.answer.status = status;
            stream.length = section.length;
        }
        Ok(ends.then(|| self.finish(place)))
    }

    fn settings(&mut self, head: Head, payload: &[u8]) -> Result<Option<Event>, Broken> {
        if !payload.len().is_multiple_of(6) || (head.has(frame::ACK) && !payload.is_empty()) {
            return Err(malformed("a SETTINGS frame has a wrong length"));
        }
        if head.has(frame::ACK) {
            return Ok(None);
        }
        for pair in payload.chunks_exact(6) {
            let setting = u16::from_be_bytes([pair[0], pair[1]]);
            let value = u32::from_be_bytes([pair[2], pair[3], pair[4], pair[5]]);
            match setting {
                frame::SETTING_ENABLE_PUSH if value != 0 => {
                    return Err(malformed("a server's setting enables its own pushes"));
                }
                frame::SETTING_MAX_CONCURRENT_STREAMS => {
                    self.streams_max = value as usize;
                    self.shut_since = (value == 0).then(|| self.shut_since.unwrap_or(self.now));
                }
                frame::SETTING_INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_window;
                    self.initial_window = i64::from(value);
                    self.streams.iter_mut().for_each(|stream| stream.window += change);
                    let too_large = |window: i64| window > frame::WINDOW_MAX;
                    if too_large(self.initial_window)
                        || self.streams.iter().any(|stream| too_large(stream.window))
                    {
                        return Err(malformed("a setting makes a flow-control window too large"));
                    }
                }
                frame::SETTING_MAX_FRAME_SIZE if !(1 << 14..1 << 24).contains(&value) => {
                    return Err(malformed("a setting of the largest frame is out of range"));
                }
                // What is sent uses no dynamic table, and frames of the least size that can be asked for.
                _ => {}
            }
        }
        frame::put(&mut self.out, frame::SETTINGS, frame::ACK, 0, &[]);
        if !matches!(self.stage, Stage::Greeting | Stage::Waiting) {
            return Ok(None);
        }
        if self.streams_max == 0 {
            self.stage = Stage::Waiting;
            return Ok(None);
        }
        self.stage = Stage::Open;
        Ok(Some(Event::Settled))
    }

    fn window_update(&mut self, head: Head, payload: &[u8]) -> Result<Option<Event>, Broken> {
        let more = frame::number(payload)
            .filter(|_| payload.len() == 4)
            .map(|more| i64::from(more & STREAM_MAX));
        let more = more
            .filter(|more| *more > 0)
            .ok_or(malformed("a WINDOW_UPDATE frame is none"))?;
        if head.stream != 0 && self.is_idle(head.stream) {
            return Err(malformed(
                "a WINDOW_UPDATE came on a stream that was never opened",
            ));
        }
        let window = if head.stream == 0 {
            &mut self.window
        } else if let Some(place) = self.place(head.stream) {
            &mut self.streams[place].window
        } else {
            return Ok(None);
        };
        *window += more;
        if *window > frame::WINDOW_MAX {
            return Err(malformed("a WINDOW_UPDATE makes a flow-control window too large"));
        }
        Ok(None)
    }
}
