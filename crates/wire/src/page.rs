//! The layout of the page shared by server and worker: PROTOCOL.md section 6. Offsets and sizes only; the mapping itself lives elsewhere.

/// Bytes of the whole page.
pub const PAGE_BYTES: usize = OUTBOX_OFFSET + OUTBOX_BYTES as usize;
/// Where the format word is.
pub const FORMAT_OFFSET: usize = 0;
/// The format word's value.
pub const PAGE_FORMAT: u32 = 0x4642_0001;
/// Where the bell word is.
pub const BELL_OFFSET: usize = 64;
/// Offset of the outbox's head: bytes consumed by the server.
pub const OUTBOX_HEAD_OFFSET: usize = 128;
/// Offset of the outbox's tail: bytes written by the worker.
pub const OUTBOX_TAIL_OFFSET: usize = 192;
/// Offset of the number of the worker's latest commit to the store, 64 bits; 0 if it has made none.
pub const COMMIT_OFFSET: usize = 256;
/// Where the claim words start.
pub const CLAIMS_OFFSET: usize = 4096;
/// Where the outbox starts.
pub const OUTBOX_OFFSET: usize = CLAIMS_OFFSET + 4 * crate::SLOTS_MAX as usize;
/// Bytes of the outbox, a power of two.
pub const OUTBOX_BYTES: u32 = 1 << 18;
/// Frames in the outbox start at multiples of this.
pub const OUTBOX_FRAME_ALIGN: u32 = 16;

const _: () = assert!(OUTBOX_BYTES.is_power_of_two() && OUTBOX_BYTES.is_multiple_of(OUTBOX_FRAME_ALIGN));
const _: () = assert!(
    OUTBOX_FRAME_ALIGN as usize >= crate::HEADER_BYTES,
    "a PAD header fits in every gap"
);

/// The values of one claim word for one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimWord {
    job: u32,
}

impl ClaimWord {
    /// The words of the job with this number.
    pub const fn of(job: u32) -> Self {
        Self { job }
    }

    /// The server has sent, or is about to send, the job.
    pub const fn offered(self) -> u32 {
        self.job << 2 | 1
    }

    /// The worker has started the job.
    pub const fn claimed(self) -> u32 {
        self.job << 2 | 2
    }

    /// The server has taken the job back.
    pub const fn revoked(self) -> u32 {
        self.job << 2 | 3
    }
}
