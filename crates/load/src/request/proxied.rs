//! Requests as a proxy takes them: with the whole URL in the first line (RFC 9112, 3.2.2), instead of the path alone.

use std::sync::Arc;

use super::{Message, Requests, Template};

/// A `path` after the first space of a request, and where it begins. `None` for what is no path, such as a whole URL.
fn path_at(head: &[u8]) -> Option<usize> {
    let at = memchr::memchr(b' ', head)? + 1;
    head.get(at).is_none_or(|byte| *byte == b'/').then_some(at)
}

/// Puts `origin` before the path at the start of a head.
pub(super) fn name_origin(head: &mut Vec<u8>, origin: &str) {
    if let Some(at) = path_at(head) {
        head.splice(at..at, origin.bytes());
    }
}

/// Puts a line behind the first one, if that ends here.
pub(super) fn insert_field(head: &mut Vec<u8>, line: &str) -> bool {
    let Some(at) = memchr::memmem::find(head, b"\r\n") else {
        return false;
    };
    head.splice(at + 2..at + 2, line.bytes());
    true
}

impl Requests {
    /// For a proxy that sends them on to `origin`, such as `http://localhost:8080`; it may want to know who asks (the value of the
    /// Proxy-Authorization field).
    #[must_use]
    pub fn through_proxy(self, origin: &str, authorization: Option<&str>) -> Self {
        let field = authorization.map(|value| format!("proxy-authorization: {value}\r\n"));
        let field = field.as_deref().unwrap_or_default();
        match self {
            Self::Same(Message { bytes, head_only }) => {
                let mut bytes = Vec::from(bytes);
                name_origin(&mut bytes, origin);
                insert_field(&mut bytes, field);
                Self::Same(Message {
                    bytes: bytes.into(),
                    head_only,
                })
            }
            Self::Several(mut several) => {
                let templates = &mut Arc::make_mut(&mut several).templates;
                templates
                    .iter_mut()
                    .for_each(|template| template.through_proxy(origin, field));
                Self::Several(several)
            }
            Self::Scenario(mut scenario) => {
                let templates = Arc::make_mut(&mut scenario).templates();
                templates.for_each(|template: &mut Template| template.through_proxy(origin, field));
                Self::Scenario(scenario)
            }
            Self::Signed(signed) => {
                let (requests, signer) = Arc::unwrap_or_clone(signed);
                requests.through_proxy(origin, authorization).signed(signer)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        request::{Grammar, Parts, Scenario},
        target::Url,
    };

    fn sent(requests: Requests) -> Vec<String> {
        let proxied = requests.through_proxy("http://h:81", Some("Basic YTpi"));
        let samples = proxied.samples().into_iter();
        samples.map(|bytes| String::from_utf8(bytes).unwrap()).collect()
    }

    #[test]
    fn every_kind_of_request_names_the_whole_url_and_who_asks() {
        let url = Url::parse("http://h:81/a?b=1").unwrap();
        let plain = "GET http://h:81/a?b=1 HTTP/1.1\r\nproxy-authorization: Basic YTpi\r\nhost: h:81\r\n\r\n";
        let parts = Parts::get(&url);
        let grammar = Grammar::braces();
        assert_eq!(sent(Requests::one(&parts, &grammar).unwrap()), [plain]);
        let mut filled = parts.clone();
        filled.path_and_query = "/{{counter}}".into();
        let filled = sent(Requests::one(&filled, &grammar).unwrap());
        assert!(
            filled[0].starts_with("GET http://h:81/")
                && filled[0].contains("HTTP/1.1\r\nproxy-authorization: Basic YTpi\r\nhost"),
            "{filled:?}"
        );
        let steps = r#"[{"path": "/a?b=1"}, {"path": "/x"}]"#;
        let scenario = Scenario::parse(steps, &url, &parts, &grammar).unwrap();
        let steps = sent(Requests::scenario(scenario));
        assert_eq!(steps[0], plain);
        assert!(
            steps[1].starts_with("GET http://h:81/x HTTP/1.1\r\n"),
            "{steps:?}"
        );
    }

    #[test]
    fn what_names_the_whole_url_already_stays() {
        let mut head = b"GET http://other/ HTTP/1.1\r\n\r\n".to_vec();
        name_origin(&mut head, "http://h");
        assert_eq!(head, b"GET http://other/ HTTP/1.1\r\n\r\n");
    }
}
