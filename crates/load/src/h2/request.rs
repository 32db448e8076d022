//! Turns requests as HTTP/1.1 writes them into header blocks and bodies: whatever makes requests need not know which version carries
//! them.

use std::sync::Arc;

use super::hpack;

/// Most fields of a request.
const FIELDS_MAX: usize = 128;

/// A request as HTTP/2 carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(super) block: Arc<[u8]>,
    pub(super) body: Arc<[u8]>,
}

/// Turns the requests of one lane, and remembers the last one: most often they are all the same.
#[derive(Debug)]
pub(crate) struct Coder {
    scheme: &'static str,
    last: Vec<u8>,
    coded: Option<Coded>,
}

impl Coder {
    pub(crate) fn new(tls: bool) -> Self {
        Self {
            scheme: if tls { "https" } else { "http" },
            last: Vec::new(),
            coded: None,
        }
    }

    /// The request in HTTP/2's form; the error says why it has none.
    pub(crate) fn code(&mut self, message: &[u8]) -> Result<&Coded, &'static str> {
        if self.coded.is_none() || self.last != message {
            self.coded = Some(code(message, self.scheme)?);
            self.last.clear();
            self.last.extend_from_slice(message);
        }
        Ok(self.coded.as_ref().expect("it was just coded"))
    }
}

fn code(message: &[u8], scheme: &str) -> Result<Coded, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(message) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Err("its header section has no end"),
        Err(httparse::Error::TooManyHeaders) => return Err("it has more than 128 header fields"),
        Err(_) => return Err("it is not an HTTP/1.1 request that could be turned into one"),
    };
    let field = |name: &str| {
        request
            .headers
            .iter()
            .find(|field| field.name.eq_ignore_ascii_case(name))
    };
    if field("transfer-encoding").is_some() {
        return Err("it has a transfer coding, which HTTP/2 has not");
    }
    let authority = field("host").map_or(&b""[..], |field| field.value);
    let (method, path) = (
        request.method.unwrap_or_default(),
        request.path.unwrap_or_default(),
    );
    let mut block = Vec::with_capacity(message.len());
    hpack::encode(&mut block, b":method", method.as_bytes());
    hpack::encode(&mut block, b":scheme", scheme.as_bytes());
    hpack::encode(&mut block, b":path", path.as_bytes());
    if !authority.is_empty() {
        hpack::encode(&mut block, b":authority", authority);
    }
    let mut name = String::new();
    for field in request.headers.iter() {
        name.clear();
        name.extend(field.name.chars().map(|letter| letter.to_ascii_lowercase()));
        // Fields about a connection of HTTP/1.1 have no place here (RFC 9113, 8.2.2).
        if !matches!(
            name.as_str(),
            "host" | "connection" | "keep-alive" | "proxy-connection" | "upgrade"
        ) {
            hpack::encode(&mut block, name.as_bytes(), field.value);
        }
    }
    Ok(Coded {
        block: block.into(),
        body: message[length..].into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(message: &str) -> Result<(Vec<String>, Vec<u8>), &'static str> {
        let coded = code(message.as_bytes(), "https")?;
        let mut fields = Vec::new();
        hpack::Decoder::new()
            .decode(&coded.block, |name, value| {
                fields.push(format!(
                    "{}: {}",
                    String::from_utf8_lossy(name),
                    String::from_utf8_lossy(value)
                ));
            })
            .unwrap();
        Ok((fields, coded.body.to_vec()))
    }

    #[test]
    fn a_request_keeps_all_but_what_steers_a_connection() {
        let message = "POST /a?b=c HTTP/1.1\r\nHost: h:1\r\nX-Own: V\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi";
        let expected = [
            ":method: POST",
            ":scheme: https",
            ":path: /a?b=c",
            ":authority: h:1",
            "x-own: V",
            "content-length: 2",
        ];
        let (fields, body) = shown(message).unwrap();
        assert_eq!(fields, expected);
        assert_eq!(body, b"hi");
    }

    #[test]
    fn what_cannot_be_turned_is_refused() {
        assert!(shown("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").is_err());
        assert!(shown("GET / HTTP/1.1\r\nhost: h\r\n").is_err());
        assert!(shown("\0\0\0").is_err());
    }

    #[test]
    fn a_coder_notices_another_request() {
        let mut coder = Coder::new(false);
        let one = coder.code(b"GET /1 HTTP/1.1\r\n\r\n").unwrap().clone();
        assert_eq!(*coder.code(b"GET /1 HTTP/1.1\r\n\r\n").unwrap(), one);
        assert_ne!(*coder.code(b"GET /2 HTTP/1.1\r\n\r\n").unwrap(), one);
        assert!(coder.code(b"GET").is_err());
    }
}
