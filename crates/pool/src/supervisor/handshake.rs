//! The handshake, the first frames on a link: HELLO, INIT, READY (PROTOCOL.md, section 3).

use std::{io, sync::Arc, time::Instant};

use bytes::BytesMut;
use forebay_wire::{
    FrameType, HEADER_BYTES, Header, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN, Split, WireError, split_frame,
};
use serde::{Deserialize, Serialize};
use tokio::io::{Interest, unix::AsyncFd};

use crate::{
    Protocol,
    dialect::{Decoder, Piece, Resync},
    link::{Claims, Link},
    options::WINDOW_BYTES,
    pool::Shared,
    reader::{Input, WatchedSocket},
    sys, worker_log,
};

/// Maximum number of body bytes inside a REQUEST.
pub const INLINE_BODY_BYTES: usize = 64 * 1024;
/// Maximum number of bytes per read of the link.
const READ_BYTES: usize = 4096;

/// The result of a successful handshake.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) claims: Claims,
    /// Whether it reads the identity of a client.
    pub(super) takes_identity: bool,
    /// Number of jobs that the worker asks for; 0: what the pool says.
    pub(super) concurrency: usize,
    /// Bytes that arrived after READY.
    pub(super) rest: BytesMut,
    pub(super) input: Input,
}

/// The reason why a worker did not become ready.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error("worker closed its link before it was ready")]
    Closed,
    #[error("cannot read the worker's link")]
    Io(#[from] io::Error),
    #[error("worker sent bytes that are not the protocol: {0}")]
    Wire(#[from] WireError),
    #[error("worker sent {found} where {expected} was expected")]
    Unexpected { found: String, expected: &'static str },
    #[error("worker speaks protocol {theirs}, this server {PROTOCOL_VERSION_MIN} to {PROTOCOL_VERSION}")]
    Version { theirs: u32 },
    /// The worker says so itself, and ends.
    #[error("{message}")]
    Failed { message: String, stack: String },
}

#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "members of a JSON object")]
struct Hello {
    protocol: u32,
    #[serde(default)]
    page: bool,
    #[serde(default)]
    lock: bool,
    #[serde(default)]
    runtime: String,
    #[serde(default)]
    profile: bool,
    #[serde(default)]
    connection: bool,
    #[serde(default)]
    identity: bool,
}

impl Hello {
    fn claims(&self) -> Claims {
        match (self.page, self.lock) {
            (false, _) => Claims::None,
            (true, false) => Claims::Exchanged,
            (true, true) => Claims::Locked,
        }
    }
}

#[derive(Serialize)]
struct Init<'a> {
    protocol: u32,
    pool: &'a str,
    worker: u64,
    generation: u16,
    handler: Option<&'a str>,
    start: Option<&'a str>,
    concurrency: usize,
    concurrency_max: usize,
    window_bytes: u32,
    inline_body_bytes: usize,
    /// Whether a response may be a part of a file whose descriptor comes with it.
    files: bool,
}

/// The payload of READY, which may be empty.
#[derive(Default, Deserialize)]
struct ReadyPayload {
    #[serde(default)]
    concurrency: usize,
}

#[derive(Deserialize)]
struct Failed {
    message: String,
    #[serde(default)]
    stack: String,
}

/// Performs the handshake. It has no time limit of its own: the pool's `start_timeout` kills the process, which ends the link.
pub(super) async fn perform(
    pool: &Shared,
    key: usize,
    worker: u64,
    link: &Arc<Link>,
) -> Result<Ready, HandshakeError> {
    let input = match link.protocol {
        Protocol::Framed => Input::Frames,
        Protocol::FramedStdio => Input::MixedFrames(Resync::new(link.generation)),
        // Such a worker is ready as soon as it runs.
        protocol @ (Protocol::Jsonl | Protocol::Wabur { .. }) => {
            return Ok(Ready {
                claims: Claims::None,
                takes_identity: false,
                concurrency: 0,
                rest: BytesMut::new(),
                input: Input::Messages(Decoder::new(protocol, link.message_bytes_max())),
            });
        }
    };
    let mut frames = Frames {
        socket: sys::watch(WatchedSocket(link.clone()), Interest::READABLE)?,
        bytes: BytesMut::new(),
        input,
        printed: Box::new(|line| {
            worker_log::printed(&pool.name, worker, None, worker_log::Stream::Stdout, line);
        }),
    };
    let hello = frames.next().await?;
    let hello: Hello = match hello.0.kind {
        FrameType::Hello => json(&hello.1, "HELLO with protocol and page")?,
        other => return Err(unexpected(other, "HELLO")),
    };
    if !(PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(&hello.protocol) {
        return Err(HandshakeError::Version {
            theirs: hello.protocol,
        });
    }
    if hello.connection {
        link.set_reads_connection();
    }
    link.control(FrameType::Init, &init(pool, worker, link));
    loop {
        let (header, payload) = frames.next().await?;
        match header.kind {
            FrameType::Ready => {
                link.profiles.told(hello.runtime.clone(), hello.profile);
                let asked = match &payload[..] {
                    [] => ReadyPayload::default(),
                    payload => json(payload, "READY with what the worker asks for")?,
                };
                return Ok(Ready {
                    claims: hello.claims(),
                    takes_identity: hello.identity,
                    concurrency: asked.concurrency,
                    rest: frames.bytes,
                    input: frames.input,
                });
            }
            FrameType::Failed => {
                let Failed { message, stack } = json(&payload, "FAILED with a message")?;
                return Err(HandshakeError::Failed { message, stack });
            }
            FrameType::Log => worker_log::structured(&pool.name, worker, None, &payload),
            // Calls of start hooks belong to no job.
            FrameType::Call => {
                let now = Instant::now();
                pool.change(None, |session| {
                    session.call((key, worker), link, &header, &payload, now)
                })?;
            }
            FrameType::Unknown(_) => {}
            other => return Err(unexpected(other, "READY or FAILED")),
        }
    }
}

/// The payload of INIT.
pub(crate) fn init(pool: &Shared, worker: u64, link: &Link) -> Vec<u8> {
    let options = pool.state.lock().options().clone();
    let program = &options.program;
    let init = Init {
        protocol: PROTOCOL_VERSION,
        pool: &options.name,
        worker,
        generation: link.generation,
        handler: program.handler.as_ref().and_then(|path| path.to_str()),
        start: program.start.as_ref().and_then(|path| path.to_str()),
        concurrency: options.concurrency,
        concurrency_max: options.concurrency_max,
        window_bytes: WINDOW_BYTES,
        inline_body_bytes: INLINE_BODY_BYTES,
        files: options.files && link.protocol == Protocol::Framed,
    };
    serde_json::to_vec(&init).expect("numbers and text become JSON")
}

fn unexpected(found: FrameType, expected: &'static str) -> HandshakeError {
    HandshakeError::Unexpected {
        found: format!("{found:?}"),
        expected,
    }
}

fn json<'a, T: Deserialize<'a>>(payload: &'a [u8], expected: &'static str) -> Result<T, HandshakeError> {
    serde_json::from_slice(payload).map_err(|error| HandshakeError::Unexpected {
        found: format!("other JSON ({error})"),
        expected,
    })
}

struct Frames<'a> {
    socket: AsyncFd<WatchedSocket>,
    bytes: BytesMut,
    input: Input,
    /// Receives lines that are printed between frames.
    printed: Box<dyn Fn(&str) + 'a>,
}

impl Frames<'_> {
    /// Takes the next frame from the buffer.
    fn take(&mut self) -> Result<Option<(Header, BytesMut)>, WireError> {
        if let Input::MixedFrames(resync) = &mut self.input {
            while let Some(piece) = resync.next(&mut self.bytes) {
                match piece {
                    Piece::Frame(header, payload) => return Ok(Some((header, payload.into()))),
                    Piece::Printed(line) => (self.printed)(&line),
                }
            }
            return Ok(None);
        }
        let Split::Whole { frame, used } = split_frame(&self.bytes)? else {
            return Ok(None);
        };
        let header = frame.header;
        let mut frame = self.bytes.split_to(used);
        Ok(Some((header, frame.split_off(HEADER_BYTES))))
    }

    async fn next(&mut self) -> Result<(Header, BytesMut), HandshakeError> {
        loop {
            if let Some(frame) = self.take()? {
                return Ok(frame);
            }
            let mut ready = self.socket.readable().await?;
            self.bytes.reserve(READ_BYTES);
            match rustix::io::read(
                self.socket.get_ref().0.channel.input(),
                self.bytes.spare_capacity_mut(),
            ) {
                Ok((read, _)) => {
                    let taken = read.len();
                    if taken == 0 {
                        return Err(HandshakeError::Closed);
                    }
                    sys::advance(&mut self.bytes, taken);
                }
                Err(rustix::io::Errno::AGAIN) => ready.clear_ready(),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}
