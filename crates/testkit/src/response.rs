//! A response as received from the wire.

/// A response, complete or cut off.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// Status code.
    pub status: u16,
    /// Names in lower case, and values, in their order.
    pub headers: Vec<(String, String)>,
    /// The body, decoded from its chunks.
    pub body: Vec<u8>,
    /// Whether the body was received up to its announced end.
    pub whole: bool,
}

/// How the end of a body is found (RFC 9112, 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delimiting {
    Length(usize),
    Chunked,
    UntilClose,
}

impl Response {
    /// Parses the status line and fields, without the empty line. Panics if they are malformed.
    pub(crate) fn head(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).expect("a head is text");
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default();
        let status = line
            .strip_prefix("HTTP/1.1 ")
            .and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.unwrap_or_else(|| panic!("not a status line: {line:?}"));
        let headers = lines
            .map(|line| {
                let (name, value) = line
                    .split_once(':')
                    .unwrap_or_else(|| panic!("not a field: {line:?}"));
                (name.to_ascii_lowercase(), value.trim().to_owned())
            })
            .collect();
        Self {
            status,
            headers,
            body: Vec::new(),
            whole: false,
        }
    }

    /// How its body is delimited when it answers a request with this method.
    pub(crate) fn delimiting(&self, method: &str) -> Delimiting {
        let bodiless = method == "HEAD" || matches!(self.status, 100..=199 | 204 | 304);
        match (
            bodiless,
            self.header("transfer-encoding"),
            self.header("content-length"),
        ) {
            (true, ..) => Delimiting::Length(0),
            (_, Some("chunked"), None) => Delimiting::Chunked,
            (_, None, Some(length)) => {
                Delimiting::Length(length.parse().expect("content-length is a number"))
            }
            (_, None, None) => Delimiting::UntilClose,
            (_, coding, length) => panic!("transfer-encoding {coding:?} with content-length {length:?}"),
        }
    }

    /// The only value of a field; `None` when it is absent.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(field, _)| field == name);
        let value = found.next().map(|(_, value)| value.as_str());
        assert!(
            found.next().is_none(),
            "{name} is given twice: {:?}",
            self.headers
        );
        value
    }

    /// The body as text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is text")
    }

    /// The body as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.text()))
    }

    /// The `detail` of a problem body, for responses that the server itself makes.
    pub fn detail(&self) -> String {
        assert_eq!(
            self.header("content-type"),
            Some("application/problem+json"),
            "{self:?}"
        );
        self.json()["detail"]
            .as_str()
            .expect("a problem has a detail")
            .to_owned()
    }
}
