//! Compression of WebSocket messages: permessage-deflate (RFC 7692). Each message is compressed by itself, so that a connection holds no
//! memory for it; clients are told to do the same.

use std::cell::RefCell;

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::messages::WebSocketError;

/// The end of each message, which is not sent (RFC 7692, 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// Level 3 costs half the CPU time of the default and leaves text hardly longer.
const LEVEL: u32 = 3;
const WINDOW_BITS: u8 = 15;
/// Room for output that is added at a time.
const PIECE_BYTES: usize = 16 * 1024;

thread_local! {
    static COMPRESS: RefCell<Compress> = RefCell::new(Compress::new(Compression::new(LEVEL), false));
    static DECOMPRESS: RefCell<Decompress> = RefCell::new(Decompress::new(false));
}

/// The agreement with a client to compress messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deflate {
    /// Base-2 logarithm of the window that the client has room for, 9 to 15.
    window_bits: u8,
}

impl Deflate {
    /// Accepts the first offer of `Sec-WebSocket-Extensions` that can be, and returns the agreement with the value of the response's field.
    pub(super) fn accept(offers: &str) -> Option<(Self, String)> {
        offers.split(',').find_map(|offer| {
            let mut parts = offer.split(';').map(str::trim);
            if parts.next() != Some("permessage-deflate") {
                return None;
            }
            let mut window_bits = WINDOW_BITS;
            let mut names = Vec::new();
            for parameter in parts {
                let (name, value) = match parameter.split_once('=') {
                    Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
                    None => (parameter, None),
                };
                let is_known = match (name, value) {
                    (
                        "server_no_context_takeover"
                        | "client_no_context_takeover"
                        | "client_max_window_bits",
                        None,
                    ) => true,
                    ("client_max_window_bits", Some(bits)) => read_bits(bits).is_some(),
                    ("server_max_window_bits", Some(bits)) => match read_bits(bits) {
                        // The compressor has no window of 8 bits.
                        Some(bits @ 9..) => {
                            window_bits = bits;
                            true
                        }
                        _ => false,
                    },
                    _ => false,
                };
                if !is_known || names.contains(&name) {
                    return None;
                }
                names.push(name);
            }
            let mut accepted =
                "permessage-deflate; server_no_context_takeover; client_no_context_takeover".to_owned();
            if window_bits < WINDOW_BITS {
                accepted += "; server_max_window_bits=";
                accepted += &window_bits.to_string();
            }
            Some((Self { window_bits }, accepted))
        })
    }

    pub(super) fn compress(self, bytes: &[u8]) -> Vec<u8> {
        if self.window_bits < WINDOW_BITS {
            let level = Compression::new(LEVEL);
            return run_compress(
                &mut Compress::new_with_window_bits(level, false, self.window_bits),
                bytes,
            );
        }
        COMPRESS.with_borrow_mut(|compress| {
            compress.reset();
            run_compress(compress, bytes)
        })
    }
}

/// Inflates a message; returns `None` if it has more than `bytes_max` bytes.
pub(super) fn decompress(bytes: &[u8], bytes_max: usize) -> Result<Option<Vec<u8>>, WebSocketError> {
    let unreadable = || WebSocketError::Protocol("a compressed message cannot be read");
    DECOMPRESS.with_borrow_mut(|decompress| {
        decompress.reset(false);
        let mut out = Vec::new();
        for mut input in [bytes, &TAIL[..]] {
            loop {
                out.reserve(PIECE_BYTES);
                let before = (decompress.total_in(), out.len());
                let status = decompress
                    .decompress_vec(input, &mut out, FlushDecompress::None)
                    .map_err(|_| unreadable())?;
                if out.len() > bytes_max {
                    return Ok(None);
                }
                let taken = (decompress.total_in() - before.0) as usize;
                input = &input[taken..];
                if status == Status::StreamEnd {
                    // A client may end its deflate stream in a message; what follows is a new one.
                    decompress.reset(false);
                }
                let has_room_left = out.len() < out.capacity();
                if input.is_empty() && (has_room_left || taken == 0) {
                    break;
                }
                if taken == 0 && out.len() == before.1 {
                    return Err(unreadable());
                }
            }
        }
        Ok(Some(out))
    })
}

fn read_bits(text: &str) -> Option<u8> {
    let bits: u8 = text.parse().ok()?;
    (8..=15).contains(&bits).then_some(bits)
}

fn run_compress(compress: &mut Compress, mut bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() / 2 + PIECE_BYTES);
    loop {
        let before = compress.total_in();
        compress
            .compress_vec(bytes, &mut out, FlushCompress::Sync)
            .expect("compressing fails only if its arguments are wrong");
        bytes = &bytes[(compress.total_in() - before) as usize..];
        // With room left, everything has been flushed.
        if bytes.is_empty() && out.len() < out.capacity() {
            break;
        }
        out.reserve(PIECE_BYTES);
    }
    debug_assert!(out.ends_with(&TAIL), "a flush ends with an empty block");
    out.truncate(out.len() - TAIL.len());
    out
}
