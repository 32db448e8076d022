//! `--debug`: one request and its answer, to be looked at.

use std::fmt::Write as _;

use forebay_load::engine::{Exchange, exchange};

use super::{LoadError, plan::Job};
use crate::output;

/// Most bytes of a body that are printed.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// Sends the first request of a job, and prints what went over the wire.
pub(crate) fn run(job: &Job) -> anyhow::Result<()> {
    let address = job.plan.lanes[0].address.to_string();
    let exchange = exchange(&job.plan).map_err(|error| LoadError::NoAnswer {
        address: address.clone(),
        example: Some(super::lanes::usage(&error).to_string()),
    })?;
    output::whole(&text(&exchange, &address))?;
    Ok(())
}

fn text(exchange: &Exchange, address: &str) -> String {
    let mut text = String::new();
    let tls = exchange.negotiated.as_ref();
    let tls = tls.map_or(String::new(), |tls| {
        format!(", over {} with {}", tls.version, tls.cipher)
    });
    // A String takes everything.
    let _ = writeln!(text, "--- sent to {address}: {} bytes{tls}", exchange.sent.len());
    write_message(&mut text, &exchange.sent);
    let ms = exchange.took.as_secs_f64() * 1e3;
    let _ = writeln!(
        text,
        "--- received: {} bytes, {ms:.3} ms with the connection",
        exchange.received.len()
    );
    write_message(&mut text, &exchange.received);
    if let Some(what) = &exchange.broken {
        let _ = writeln!(text, "--- the answer is not whole: {what}");
    }
    text
}

/// A head as it is, and as much of a body as is looked at.
fn write_message(text: &mut String, message: &[u8]) {
    let end = message.windows(4).position(|four| four == b"\r\n\r\n");
    let (head, body) = message.split_at(end.map_or(message.len(), |end| end + 4));
    escape(text, head);
    let shown = body.len().min(BODY_BYTES_MAX);
    escape(text, &body[..shown]);
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if shown < body.len() {
        // A String takes everything.
        let _ = writeln!(text, "--- and {} more bytes", body.len() - shown);
    }
}

/// Text stays as it is; what could steer a terminal, or is no text, is written as `\x1b`. The carriage return of a line's end is left out.
fn escape(text: &mut String, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let (valid, rest) = match std::str::from_utf8(bytes) {
            Ok(valid) => (valid, &b""[..]),
            Err(error) => {
                let (valid, rest) = bytes.split_at(error.valid_up_to());
                (std::str::from_utf8(valid).unwrap_or_default(), rest)
            }
        };
        let mut letters = valid.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\r' if letters.peek() == Some(&'\n') => {}
                '\n' | '\t' => text.push(letter),
                '\\' => text.push_str("\\\\"),
                _ if letter.is_control() => {
                    // A String takes everything.
                    let _ = write!(text, "\\x{:02x}", u32::from(letter));
                }
                _ => text.push(letter),
            }
        }
        bytes = match rest {
            [first, rest @ ..] => {
                // A String takes everything.
                let _ = write!(text, "\\x{first:02x}");
                rest
            }
            [] => rest,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &[u8]) -> String {
        let mut text = String::new();
        write_message(&mut text, message);
        text
    }

    #[test]
    fn what_is_no_text_is_escaped_and_a_long_body_is_cut() {
        assert_eq!(
            shown(b"GET / HTTP/1.1\r\na: b\r\n\r\n\x00\xff\xc3\xa4\\\x1b[31m\r"),
            "GET / HTTP/1.1\na: b\n\n\\x00\\xffä\\\\\\x1b[31m\\x0d\n"
        );
        let long = [
            b"GET / HTTP/1.1\r\n\r\n".as_slice(),
            &vec![b'x'; BODY_BYTES_MAX + 5],
        ]
        .concat();
        assert!(shown(&long).ends_with("x\n--- and 5 more bytes\n"));
        assert_eq!(shown(b""), "\n");
    }
}
