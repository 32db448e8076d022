//! The encoders of the codings. Levels and windows are chosen for speed and for little memory: see
//! `docs/decisions/0030-compression.md` for what was measured.

use std::{
    fmt,
    io::{self, Write},
};

use brotli::CompressorWriter;
use flate2::{Compression, write::GzEncoder};
use zstd::zstd_safe::CParameter;

use super::Coding;

/// Levels: of gzip 0 to 9, of Brotli 0 to 11, of zstd 1 to 22.
const GZIP_LEVEL: u32 = 4;
const BROTLI_LEVEL: u32 = 3;
const ZSTD_LEVEL: i32 = 3;
/// Windows of Brotli and zstd, as powers of two: 64 KiB. That of gzip is 32 KiB.
const WINDOW_LOG: u32 = 16;
/// Sizes of the tables of zstd, as powers of two.
const ZSTD_HASH_LOG: u32 = 14;
const ZSTD_CHAIN_LOG: u32 = 13;
/// Brotli hands its output on in parts of this size.
const BROTLI_BUFFER_BYTES: usize = 4 * 1024;

/// One body on its way into a coding. None takes more than about 1 MiB of memory, whatever the body's length.
pub(super) enum Encoder {
    Zstd(zstd::Encoder<'static, Vec<u8>>),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Gzip(GzEncoder<Vec<u8>>),
}

impl Encoder {
    /// `length` is the body's, if it is known.
    pub(super) fn new(coding: Coding, length: Option<u64>) -> io::Result<Self> {
        let out = Vec::new();
        Ok(match coding {
            Coding::Zstd => {
                let mut encoder = zstd::Encoder::new(out, ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                encoder.set_parameter(CParameter::HashLog(ZSTD_HASH_LOG))?;
                encoder.set_parameter(CParameter::ChainLog(ZSTD_CHAIN_LOG))?;
                encoder.set_pledged_src_size(length)?;
                Self::Zstd(encoder)
            }
            Coding::Brotli => Self::Brotli(Box::new(CompressorWriter::new(
                out,
                BROTLI_BUFFER_BYTES,
                BROTLI_LEVEL,
                WINDOW_LOG,
            ))),
            Coding::Gzip => Self::Gzip(GzEncoder::new(out, Compression::new(GZIP_LEVEL))),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.write_all(bytes),
            Self::Brotli(encoder) => encoder.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    /// Moves everything that was written to the output, so that a decoder can read it.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Zstd(encoder) => encoder.flush(),
            Self::Brotli(encoder) => encoder.flush(),
            Self::Gzip(encoder) => encoder.flush(),
        }
    }

    /// The output so far, which the caller may take.
    pub(super) fn output(&mut self) -> &mut Vec<u8> {
        match self {
            Self::Zstd(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Gzip(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the body, and returns the rest of the output.
    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Zstd(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Gzip(encoder) => encoder.finish(),
        }
    }
}

impl fmt::Debug for Encoder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Encoder").finish_non_exhaustive()
    }
}

/// A whole body in a coding.
pub(super) fn encode(coding: Coding, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = Encoder::new(coding, Some(bytes.len() as u64))?;
    encoder.write(bytes)?;
    encoder.finish()
}
