//! Posts bodies to one address.

use std::{fmt, str::FromStr, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header::RETRY_AFTER};
use http_body_util::{BodyExt as _, Full, Limited};
use rustls::RootCertStore;
use url::Url;

use crate::{HttpClient, with_causes};

/// Maximum number of bytes of a response that are read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// The beginning of a URL: scheme, host, port, and optionally a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostAddress(Url);

/// The reason why there is no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The text is not a valid URL. It may contain a password, so it is not repeated.
    #[error(
        "is no address: expected `http://` or `https://`, a host, and neither a user nor a query, such as `http://127.0.0.1:4318`"
    )]
    NoAddress,
    /// The name or value of a header field is invalid.
    #[error("`{name}` cannot be sent as a field")]
    Field {
        /// The name of the field.
        name: String,
    },
    /// The connection failed, or the data was invalid.
    #[error("{reason}")]
    Failed {
        /// The error and its causes.
        reason: String,
    },
}

impl FromStr for PostAddress {
    type Err = PostError;

    fn from_str(text: &str) -> Result<Self, PostError> {
        let url = Url::parse(text.trim_end_matches('/')).map_err(|_| PostError::NoAddress)?;
        let is_plain = url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        if matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain {
            Ok(Self(url))
        } else {
            Err(PostError::NoAddress)
        }
    }
}

impl fmt::Display for PostAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

/// Sends bodies to one address, with a connection pool.
#[derive(Debug)]
pub struct Post {
    uri: Uri,
    fields: HeaderMap,
    client: HttpClient,
}

/// The response to a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    /// The HTTP status.
    pub status: u16,
    /// Time to wait before the next body, if the response gives it in seconds.
    pub retry_after: Option<Duration>,
    /// The body, cut off at 64 KiB.
    pub body: Bytes,
}

impl Post {
    /// Creates a client for a path below an address, with these header fields. Reads the system's certificates if the scheme is `https:`.
    pub fn new(address: &PostAddress, path: &str, fields: &[(String, String)]) -> Result<Self, PostError> {
        let uri = format!("{address}{path}");
        let uri = uri.parse().map_err(|_| PostError::NoAddress)?;
        let mut all = HeaderMap::new();
        for (name, value) in fields {
            let field = || PostError::Field { name: name.clone() };
            let value = HeaderValue::from_str(value).map_err(|_| field())?;
            all.insert(HeaderName::try_from(name).map_err(|_| field())?, value);
        }
        let authorities = match address.0.scheme() {
            "https" => forebay_tls::system_authorities(),
            _ => RootCertStore::empty(),
        };
        if address.0.scheme() == "https" && authorities.is_empty() {
            let reason = "this system has no certificates of authorities".to_owned();
            return Err(PostError::Failed { reason });
        }
        Ok(Self {
            uri,
            fields: all,
            client: HttpClient::new(authorities, false),
        })
    }

    /// Sends a body. Dropping the future cancels the request.
    pub async fn send(&self, body: Bytes) -> Result<Posted, PostError> {
        let mut request = http::Request::new(Full::new(body));
        *request.method_mut() = Method::POST;
        request.uri_mut().clone_from(&self.uri);
        request.headers_mut().clone_from(&self.fields);
        let answer = self.client.send(request).await;
        let answer = answer.map_err(|error| PostError::Failed {
            reason: error.to_string(),
        })?;
        let status = answer.status().as_u16();
        let retry_after = answer.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.parse().ok());
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| PostError::Failed {
            reason: with_causes(&*error),
        })?;
        Ok(Posted {
            status,
            retry_after: retry_after.map(Duration::from_secs),
            body: body.to_bytes(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_scheme_and_a_host_and_nothing_secret() {
        for text in ["http://127.0.0.1:4318", "https://collector.example/otel/"] {
            let address: PostAddress = text.parse().unwrap();
            assert_eq!(address.to_string(), text.trim_end_matches('/'));
        }
        for text in [
            "",
            "collector:4318",
            "grpc://collector:4317",
            "http://",
            "http://user:word@collector",
            "http://collector?key=1",
        ] {
            assert_eq!(text.parse::<PostAddress>(), Err(PostError::NoAddress), "{text}");
        }
    }
}
