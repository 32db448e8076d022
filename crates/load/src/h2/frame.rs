//! Frames as octets (RFC 9113, 4 and 6).

/// What a client sends first (RFC 9113, 3.4).
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Octets before the payload.
pub(super) const HEAD_BYTES: usize = 9;
/// Longest payload either side may send without being asked: the default, which the other side is never allowed to exceed.
pub(super) const PAYLOAD_BYTES_MAX: usize = 16_384;
/// The largest flow-control window.
pub(super) const WINDOW_MAX: i64 = 0x7fff_ffff;
/// The window that both sides begin with.
pub(super) const WINDOW_DEFAULT: i64 = 65_535;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PUSH_PROMISE: u8 = 5;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const WITH_PRIORITY: u8 = 0x20;

pub(super) const SETTING_ENABLE_PUSH: u16 = 2;
pub(super) const SETTING_MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const SETTING_INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const SETTING_MAX_FRAME_SIZE: u16 = 5;

pub(super) const PROTOCOL_ERROR: u32 = 1;
pub(super) const CANCEL: u32 = 8;

/// What stands before a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    pub(super) fn read(bytes: [u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]) as usize,
            kind,
            flags,
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// Appends a frame.
pub(super) fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    debug_assert!(
        payload.len() <= PAYLOAD_BYTES_MAX,
        "a payload is cut before it is put into frames"
    );
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Appends a header block, in as many frames as it takes.
pub(super) fn put_headers(out: &mut Vec<u8>, stream: u32, block: &[u8], end_stream: bool) {
    let mut parts = block.chunks(PAYLOAD_BYTES_MAX).peekable();
    let (mut kind, mut flags) = (HEADERS, if end_stream { END_STREAM } else { 0 });
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            flags |= END_HEADERS;
        }
        put(out, kind, flags, stream, part);
        (kind, flags) = (CONTINUATION, 0);
    }
}

/// The name of an error code (RFC 9113, 7).
pub(super) fn error_name(code: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "NO_ERROR",
        "PROTOCOL_ERROR",
        "INTERNAL_ERROR",
        "FLOW_CONTROL_ERROR",
        "SETTINGS_TIMEOUT",
        "STREAM_CLOSED",
        "FRAME_SIZE_ERROR",
        "REFUSED_STREAM",
        "CANCEL",
        "COMPRESSION_ERROR",
        "CONNECT_ERROR",
        "ENHANCE_YOUR_CALM",
        "INADEQUATE_SECURITY",
        "HTTP_1_1_REQUIRED",
    ];
    NAMES.get(code as usize).copied().unwrap_or("an unknown error")
}

/// The number in four octets.
pub(super) fn number(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))
}
