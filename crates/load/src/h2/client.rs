//! One connection: frames that come become [`Event`]s, what has to be sent gathers in [`Client::out`].

mod meaning;

use std::{collections::VecDeque, sync::Arc};

use super::{
    fields::{Section, TOO_LONG},
    frame::{self, Head},
    hpack::Decoder,
    request::Coded,
};
use crate::{
    failure::Class,
    response::{Answer, Broken, HEAD_BYTES_MAX, KEPT_BODY_BYTES_MAX, Kept},
};

/// What the server may send of one body before it needs leave. Bodies are not stored, so it may be generous.
const STREAM_WINDOW: u32 = 64 << 20;
/// The same for all bodies of a connection.
const CONNECTION_WINDOW: u32 = 1 << 30;
/// Body octets in frames that wait to be written; more are made when these are gone.
const UPLOAD_BYTES_MAX: usize = 64 * 1024;
/// Most octets of replies to the server's own frames while it reads none.
const REPLIES_BYTES_MAX: usize = 1 << 20;
/// Body octets in one frame.
const PART_MAX: i64 = 16_384;
/// The last number that a stream can have.
const STREAM_MAX: u32 = 0x7fff_ffff;

/// What has happened. Streams are named by their place among those under way, oldest first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The server has said how it wants to be spoken to, and that is with a request at a time at least: they may be sent.
    Settled,
    /// An answer is whole. `began`: what [`Client::now`] was when its first bytes came.
    Answer {
        place: usize,
        answer: Answer,
        began: u64,
    },
    /// A request has failed, the connection has not.
    Lost {
        place: usize,
        class: Class,
        what: String,
    },
    /// The server takes no further requests, and has not looked at those from this place on.
    GoesAway { place: usize, what: String },
}

#[derive(Clone, Copy, Debug, Default)]
enum Input {
    #[default]
    Head,
    Payload(Head),
    /// The octet that says how much padding follows.
    PadLength(Head),
    Data {
        stream: u32,
        left: usize,
        padding: usize,
        ends: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The server's settings have not come.
    Greeting,
    /// They have, and allow no request as yet.
    Waiting,
    Open,
    /// The server takes no further requests.
    GoingAway,
}

/// A header block that goes on in another frame.
#[derive(Debug, Default)]
struct Block {
    /// 0: none is being read.
    stream: u32,
    ends: bool,
    bytes: Vec<u8>,
    /// Octets of its frames.
    wire_bytes: u64,
}

#[derive(Debug)]
struct Upload {
    body: Arc<[u8]>,
    at: usize,
}

/// A request whose answer is due.
#[derive(Debug)]
struct Stream {
    id: u32,
    head_only: bool,
    /// Its status is 0 until its head has come.
    answer: Answer,
    began: u64,
    /// When some of it came last.
    heard: u64,
    length: Option<u64>,
    /// What of the request's body is not in frames yet.
    upload: Option<Upload>,
    /// What the server allows of it.
    window: i64,
    /// Octets that came and for which no new leave was given.
    unreturned: u32,
    kept: Option<Kept>,
}

/// The state of one connection.
#[derive(Debug)]
pub(crate) struct Client {
    /// To be written; the owner empties it.
    pub(crate) out: Vec<u8>,
    /// The last answer, if answers are kept.
    pub(crate) kept: Option<Kept>,
    /// The time, for whoever asks later when an answer began. The owner sets it before it reads.
    pub(crate) now: u64,
    keeps: bool,
    input: Input,
    held: Vec<u8>,
    block: Block,
    decoder: Decoder,
    streams: VecDeque<Stream>,
    next_id: u32,
    stage: Stage,
    /// Whether a stream was ended from this side: the server may have sent more of it before it knew.
    has_reset: bool,
    /// Streams whose request is not written to its end.
    uploads: usize,
    streams_max: usize,
    /// Since when that is 0, if it is.
    shut_since: Option<u64>,
    initial_window: i64,
    window: i64,
    unreturned: u32,
}

const fn malformed(what: &'static str) -> Broken {
    Broken {
        class: Class::Malformed,
        what,
    }
}

impl Client {
    /// Later answers are counted only.
    pub(crate) fn keep_no_more(&mut self) {
        self.keeps = false;
        self.kept = None;
    }

    /// A new connection; `keeps`: heads and bodies of answers are kept.
    pub(crate) fn new(keeps: bool) -> Self {
        let mut out = frame::PREFACE.to_vec();
        let mut settings = Vec::new();
        for (setting, value) in [
            (frame::SETTING_ENABLE_PUSH, 0),
            (frame::SETTING_INITIAL_WINDOW_SIZE, STREAM_WINDOW),
        ] {
            settings.extend_from_slice(&setting.to_be_bytes());
            settings.extend_from_slice(&value.to_be_bytes());
        }
        frame::put(&mut out, frame::SETTINGS, 0, 0, &settings);
        let more = CONNECTION_WINDOW - frame::WINDOW_DEFAULT as u32;
        frame::put(&mut out, frame::WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        Self {
            out,
            kept: None,
            now: 0,
            keeps,
            input: Input::Head,
            held: Vec::new(),
            block: Block::default(),
            decoder: Decoder::new(),
            streams: VecDeque::new(),
            next_id: 1,
            stage: Stage::Greeting,
            has_reset: false,
            uploads: 0,
            streams_max: usize::MAX,
            shut_since: None,
            initial_window: frame::WINDOW_DEFAULT,
            window: frame::WINDOW_DEFAULT,
            unreturned: 0,
        }
    }

    /// How many further requests may be sent when this side wants at most so many under way.
    pub(crate) fn room(&self, most: usize) -> usize {
        if self.stage != Stage::Open || self.takes_no_more() {
            return 0;
        }
        let numbers_left = (STREAM_MAX - self.next_id) as usize / 2 + 1;
        most.min(self.streams_max)
            .saturating_sub(self.streams.len())
            .min(numbers_left)
    }

    /// Since when the server allows no requests at all, if it does not.
    pub(crate) fn shut_since(&self) -> Option<u64> {
        self.shut_since
    }

    /// Whether further requests need another connection.
    pub(crate) fn takes_no_more(&self) -> bool {
        self.stage == Stage::GoingAway || self.next_id > STREAM_MAX
    }

    /// When the answer at a place began to come, and when some of it came last, if it has begun.
    pub(crate) fn progress(&self, place: usize) -> Option<(u64, u64)> {
        let stream = self.streams.get(place)?;
        (stream.answer.wire_bytes > 0).then_some((stream.began, stream.heard))
    }

    /// Puts a request into frames. There must be [`room`](Self::room) for it.
    pub(crate) fn request(&mut self, coded: &Coded, head_only: bool) {
        let id = self.next_id;
        self.next_id += 2;
        let empty = coded.body.is_empty();
        frame::put_headers(&mut self.out, id, &coded.block, empty);
        self.uploads += usize::from(!empty);
        self.streams.push_back(Stream {
            id,
            head_only,
            answer: Answer {
                keep_alive: true,
                ..Answer::default()
            },
            began: 0,
            heard: 0,
            length: None,
            upload: (!empty).then(|| Upload {
                body: coded.body.clone(),
                at: 0,
            }),
            window: self.initial_window,
            unreturned: 0,
            kept: self.keeps.then(Kept::default),
        });
        self.upload();
    }

    /// Puts as much of the requests' bodies into frames as the server allows and as is worth holding.
    pub(crate) fn upload(&mut self) {
        if self.uploads == 0 {
            return;
        }
        for stream in &mut self.streams {
            let Some(upload) = &mut stream.upload else {
                continue;
            };
            loop {
                let allowed = self.window.min(stream.window).clamp(0, PART_MAX) as u32;
                let left = upload.body.len() - upload.at;
                let part = left.min(allowed as usize);
                if part == 0 || self.out.len() >= UPLOAD_BYTES_MAX {
                    break;
                }
                let flags = if part == left { frame::END_STREAM } else { 0 };
                let end = upload.at + part;
                frame::put(
                    &mut self.out,
                    frame::DATA,
                    flags,
                    stream.id,
                    &upload.body[upload.at..end],
                );
                upload.at = end;
                let sent = i64::from(part as u32);
                self.window -= sent;
                stream.window -= sent;
                if part == left {
                    stream.upload = None;
                    self.uploads -= 1;
                    break;
                }
            }
        }
    }

    /// Gives up a request. The server is told.
    pub(crate) fn cancel(&mut self, place: usize) {
        let id = self.streams[place].id;
        self.remove(place);
        self.reset(id, frame::CANCEL);
    }

    fn reset(&mut self, id: u32, code: u32) {
        frame::put(&mut self.out, frame::RST_STREAM, 0, id, &code.to_be_bytes());
        self.has_reset = true;
    }

    fn remove(&mut self, place: usize) -> Stream {
        let stream = self
            .streams
            .remove(place)
            .expect("the place was found among the streams");
        self.uploads -= usize::from(stream.upload.is_some());
        stream
    }

    fn place(&self, id: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&id, |stream| stream.id).ok()
    }

    /// Whether no request was ever sent under this number.
    fn is_idle(&self, id: u32) -> bool {
        id >= self.next_id || id.is_multiple_of(2)
    }

    /// Reads on: how many octets were used, and what they meant. To be called until all are used. An error ends the connection.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), Broken> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let event = match self.input {
                Input::Head => {
                    if rest.is_empty() {
                        return Ok((at, None));
                    }
                    at += self.hold(rest, frame::HEAD_BYTES);
                    if self.held.len() == frame::HEAD_BYTES {
                        let mut head = [0; frame::HEAD_BYTES];
                        head.copy_from_slice(&self.held);
                        self.held.clear();
                        self.begin(head)?;
                    }
                    None
                }
                Input::Payload(head) if self.held.is_empty() && rest.len() >= head.length => {
                    at += head.length;
                    self.input = Input::Head;
                    self.take(head, &rest[..head.length])?
                }
                Input::Payload(head) => {
                    at += self.hold(rest, head.length);
                    if self.held.len() < head.length {
                        return Ok((at, None));
                    }
                    self.input = Input::Head;
                    let mut payload = std::mem::take(&mut self.held);
                    let event = self.take(head, &payload)?;
                    payload.clear();
                    self.held = payload;
                    event
                }
                Input::PadLength(head) => {
                    let Some(&padding) = rest.first() else {
                        return Ok((at, None));
                    };
                    at += 1;
                    let padding = usize::from(padding);
                    let left = (head.length - 1).checked_sub(padding);
                    self.input = Input::Data {
                        stream: head.stream,
                        left: left.ok_or(malformed("the padding of a frame is longer than the frame"))?,
                        padding,
                        ends: head.has(frame::END_STREAM),
                    };
                    None
                }
                Input::Data {
                    stream,
                    left,
                    padding,
                    ends,
                } => {
                    let (data, pad) = (left.min(rest.len()), padding.min(rest.len().saturating_sub(left)));
                    at += data + pad;
                    self.take_data(stream, &rest[..data]);
                    if data + pad < left + padding {
                        self.input = Input::Data {
                            stream,
                            left: left - data,
                            padding: padding - pad,
                            ends,
                        };
                        return Ok((at, None));
                    }
                    self.input = Input::Head;
                    self.place(stream)
                        .filter(|_| ends)
                        .map(|place| self.finish(place))
                }
            };
            if self.out.len() > REPLIES_BYTES_MAX {
                return Err(malformed("the server asks for replies and reads none of them"));
            }
            if event.is_some() {
                return Ok((at, event));
            }
        }
    }

    /// Holds octets until there are so many; returns how many were taken.
    fn hold(&mut self, rest: &[u8], until: usize) -> usize {
        let taken = rest.len().min(until - self.held.len());
        self.held.extend_from_slice(&rest[..taken]);
        taken
    }

    fn begin(&mut self, bytes: [u8; frame::HEAD_BYTES]) -> Result<(), Broken> {
        let head = Head::read(bytes);
        if self.stage == Stage::Greeting && (head.kind != frame::SETTINGS || head.has(frame::ACK)) {
            let is_http1 = bytes.starts_with(b"HTTP/1.");
            return Err(malformed(if is_http1 {
                "the server answers in HTTP/1: it does not speak HTTP/2 here"
            } else {
                "what came first is not HTTP/2's settings"
            }));
        }
        if head.length > frame::PAYLOAD_BYTES_MAX {
            return Err(malformed("a frame is longer than 16 KiB"));
        }
        if (self.block.stream != 0) != (head.kind == frame::CONTINUATION)
            || (self.block.stream != 0 && self.block.stream != head.stream)
        {
            return Err(malformed("a header block is not continued where it must be"));
        }
        self.input = Input::Payload(head);
        if head.kind == frame::DATA {
            self.begin_data(head)?;
            self.input = if head.has(frame::PADDED) {
                if head.length == 0 {
                    return Err(malformed("the padding of a frame is longer than the frame"));
                }
                Input::PadLength(head)
            } else {
                Input::Data {
                    stream: head.stream,
                    left: head.length,
                    padding: 0,
                    ends: head.has(frame::END_STREAM),
                }
            };
        }
        Ok(())
    }

    fn begin_data(&mut self, head: Head) -> Result<(), Broken> {
        if self.is_idle(head.stream) {
            return Err(malformed("a body came on a stream that was never opened"));
        }
        let length = head.length as u32;
        self.unreturned += length;
        if self.unreturned >= CONNECTION_WINDOW / 2 {
            frame::put(
                &mut self.out,
                frame::WINDOW_UPDATE,
                0,
                0,
                &self.unreturned.to_be_bytes(),
            );
            self.unreturned = 0;
        }
        match self.place(head.stream) {
            Some(place) => {
                let stream = &mut self.streams[place];
                if stream.answer.status == 0 {
                    return Err(malformed("the body of an answer came before its head"));
                }
                stream.answer.wire_bytes += (frame::HEAD_BYTES + head.length) as u64;
                stream.unreturned += length;
                if stream.unreturned >= STREAM_WINDOW / 2 && !head.has(frame::END_STREAM) {
                    frame::put(
                        &mut self.out,
                        frame::WINDOW_UPDATE,
                        0,
                        head.stream,
                        &stream.unreturned.to_be_bytes(),
                    );
                    stream.unreturned = 0;
                }
                Ok(())
            }
            None => self.unasked(),
        }
    }

    /// Something came on a stream that is over.
    fn unasked(&self) -> Result<(), Broken> {
        if self.has_reset {
            return Ok(());
        }
        Err(Broken {
            class: Class::Unsolicited,
            what: "something came on a stream whose answer was whole",
        })
    }

    fn take_data(&mut self, id: u32, data: &[u8]) {
        let Some(place) = self.place(id).filter(|_| !data.is_empty()) else {
            return;
        };
        let stream = &mut self.streams[place];
        stream.heard = self.now;
        stream.answer.body_bytes += data.len() as u64;
        if let Some(kept) = &mut stream.kept {
            let room = KEPT_BODY_BYTES_MAX.saturating_sub(kept.body.len());
            kept.body.extend_from_slice(&data[..data.len().min(room)]);
        }
    }

    /// The answer at a place has ended.
    fn finish(&mut self, place: usize) -> Event {
        let mut stream = self.remove(place);
        if stream.upload.is_some() {
            // It needed less than the whole request; the rest would be sent for nothing.
            self.reset(stream.id, frame::CANCEL);
        }
        let without_body = stream.head_only || matches!(stream.answer.status, 204 | 304);
        match stream.length {
            Some(length) if !without_body && length != stream.answer.body_bytes => Event::Lost {
                place,
                class: Class::Framing,
                what: format!(
                    "content-length is {length}, the body has {} bytes",
                    stream.answer.body_bytes
                ),
            },
            _ => {
                self.kept = stream.kept.take();
                Event::Answer {
                    place,
                    answer: stream.answer,
                    began: stream.began,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
