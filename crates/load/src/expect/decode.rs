//! Bodies without their content coding (RFC 9110, 8.4), for whoever looks into them. What an answer says about itself is not trusted: no
//! more comes out than is kept of any body.

use std::io::Read;

use crate::response::KEPT_BODY_BYTES_MAX;

/// What answers are asked to be coded with.
pub const ACCEPTED: &str = "gzip, br, zstd, deflate";

/// Most memory of a window that a frame of zstd may ask for.
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// A body without its codings, which `content-encoding` lists in the order in which they were applied. `None`: it has none.
pub(crate) fn decoded(body: &[u8], codings: &[u8]) -> Result<Option<Vec<u8>>, String> {
    let mut current: Option<Vec<u8>> = None;
    for coding in codings.rsplit(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
        if coding.is_empty() || coding.eq_ignore_ascii_case(b"identity") {
            continue;
        }
        current = Some(one(current.as_deref().unwrap_or(body), coding)?);
    }
    Ok(current)
}

fn one(body: &[u8], coding: &[u8]) -> Result<Vec<u8>, String> {
    let name = String::from_utf8_lossy(coding).to_ascii_lowercase();
    let read: Box<dyn Read + '_> = match name.as_str() {
        "gzip" | "x-gzip" => Box::new(flate2::read::MultiGzDecoder::new(body)),
        // The name means zlib's format; some servers leave its frame out.
        "deflate" if body.first().is_some_and(|first| first & 15 == 8) => {
            Box::new(flate2::read::ZlibDecoder::new(body))
        }
        "deflate" => Box::new(flate2::read::DeflateDecoder::new(body)),
        "br" => Box::new(brotli_decompressor::Decompressor::new(body, 4096)),
        "zstd" => {
            let decoder =
                ruzstd::decoding::StreamingDecoder::new_with_max_window_size(body, ZSTD_WINDOW_BYTES_MAX)
                    .map_err(|error| {
                        format!("the body is not zstd, as its content-encoding says: {error}")
                    })?;
            Box::new(decoder)
        }
        _ => {
            return Err(format!(
                "the body's content-encoding `{name}` is not known; accepted are {ACCEPTED}"
            ));
        }
    };
    let mut out = Vec::new();
    read.take(KEPT_BODY_BYTES_MAX as u64 + 1)
        .read_to_end(&mut out)
        .map_err(|error| format!("the body is not {name}, as its content-encoding says: {error}"))?;
    if out.len() > KEPT_BODY_BYTES_MAX {
        return Err(format!(
            "the body is longer than {KEPT_BODY_BYTES_MAX} bytes without its content-encoding `{name}`, more than are looked into"
        ));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// `hello, hello, hello!`, as the tools `brotli`, `zstd` and zlib write it.
    const BROTLI: &[u8] = &[
        139, 9, 128, 104, 101, 108, 108, 111, 44, 32, 104, 101, 108, 108, 111, 44, 32, 104, 101, 108, 108,
        111, 33, 3,
    ];
    const ZSTD: &[u8] = &[
        40, 181, 47, 253, 4, 104, 117, 0, 0, 64, 104, 101, 108, 108, 111, 44, 32, 33, 1, 0, 226, 138, 17,
        229, 17, 240, 43,
    ];

    #[test]
    fn each_coding_is_taken_off() {
        let text = b"hello, hello, hello!";
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(text).unwrap();
        let mut bare = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        bare.write_all(text).unwrap();
        for (body, coding) in [
            (gzip(text), "GZIP"),
            (zlib.finish().unwrap(), "deflate"),
            (bare.finish().unwrap(), "deflate"),
            (BROTLI.to_vec(), "br"),
            (ZSTD.to_vec(), "zstd"),
            (gzip(BROTLI), "br, gzip"),
        ] {
            let found = decoded(&body, coding.as_bytes());
            assert_eq!(
                found.as_ref().map(Option::as_deref),
                Ok(Some(&text[..])),
                "{coding}"
            );
        }
        assert_eq!(decoded(text, b"identity"), Ok(None));
        assert_eq!(decoded(text, b""), Ok(None));
    }

    #[test]
    fn what_is_no_such_body_or_too_long_is_told() {
        let bomb = gzip(&vec![0; KEPT_BODY_BYTES_MAX + 1]);
        for (body, coding, says) in [
            (
                &b"plain"[..],
                "gzip",
                "the body is not gzip, as its content-encoding says",
            ),
            (b"plain", "zstd", "the body is not zstd"),
            (b"\xff\xff\xff", "br", "the body is not br"),
            (
                b"plain",
                "compress",
                "`compress` is not known; accepted are gzip, br",
            ),
            (
                &bomb,
                "gzip",
                "longer than 4194304 bytes without its content-encoding",
            ),
        ] {
            let error = decoded(body, coding.as_bytes()).unwrap_err();
            assert!(error.contains(says), "{coding}: {error}");
        }
    }
}
