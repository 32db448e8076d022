//! HTTP/1.1 requests of scripts to other servers, within what they are allowed.

use std::{
    cell::OnceCell,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use forebay_http_client::{HttpClient, with_causes};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri,
    header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, LOCATION},
};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use url::Url;

use crate::{fetch_host::FetchHost, options::Options};

/// Maximum number of redirects, from the Fetch standard.
const REDIRECTS_MAX: u32 = 20;

/// The request of a fetch.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) url: Url,
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) redirect: Redirect,
}

/// How redirects are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redirect {
    Follow,
    Manual,
    Error,
}

/// The head of a response.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) url: Url,
    pub(crate) redirected: bool,
    pub(crate) headers: HeaderMap,
}

/// The reason why there is no response.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The URL scheme is not supported.
    #[error("`{scheme}:` is not fetched; `http:` and `https:` are")]
    Scheme { scheme: String },
    /// The host is not listed in `allow`.
    #[error("{subject} may not fetch from `{host}`: {allowed}")]
    NotAllowed {
        subject: String,
        host: String,
        allowed: String,
    },
    /// The time limit was exceeded.
    #[error("`{host}` has not answered in full after {time_max:?} (fetch_time_max)")]
    Time { host: String, time_max: Duration },
    /// The size limit was exceeded.
    #[error("the answer of `{host}` is longer than {bytes_max} bytes (fetch_bytes_max)")]
    Long { host: String, bytes_max: usize },
    /// The connection failed, or the data was invalid.
    #[error("fetching from `{host}` failed: {reason}")]
    Failed { host: String, reason: String },
    /// There were too many redirects, or none are allowed.
    #[error("`{host}` leads elsewhere: {reason}")]
    Redirected { host: String, reason: String },
}

impl Error {
    /// The name of the error for scripts. The standard prescribes `TypeError` for all network failures.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Time { .. } => "TimeoutError",
            _ => "TypeError",
        }
    }
}

/// Checks whether a script may fetch from an address.
pub(crate) fn check(url: &Url, options: &Options) -> Result<(), Error> {
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Error::Scheme {
            scheme: url.scheme().into(),
        });
    }
    let is_allowed = options.allow.fetch.iter().any(|host| host.is_of(url));
    if is_allowed || options.allow.clients.has_object(url) {
        return Ok(());
    }
    let allowed = &options.allow.fetch;
    Err(Error::NotAllowed {
        subject: options.subject(),
        host: host_of(url),
        allowed: if allowed.is_empty() {
            "its `allow` names no hosts in `fetch`".into()
        } else {
            let names: Vec<_> = allowed.iter().map(FetchHost::as_str).collect();
            format!("its `allow` names {}", names.join(", "))
        },
    })
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Performs fetches for the scripts of one thread, with a connection pool.
#[derive(Debug)]
pub(crate) struct Fetcher {
    options: Arc<Options>,
    client: OnceCell<HttpClient>,
}

impl Fetcher {
    pub(crate) fn new(options: Arc<Options>) -> Self {
        Self {
            options,
            client: OnceCell::new(),
        }
    }

    /// Sends a request and follows redirects.
    pub(crate) async fn fetch(&self, request: Request) -> Result<(Head, Answer), Error> {
        let time_max = self.options.limits.fetch_time_max;
        let until = Instant::now() + time_max;
        let host = host_of(&request.url);
        let sent = tokio::time::timeout_at(until.into(), self.follow(request)).await;
        let (head, incoming) = sent.unwrap_or(Err(Error::Time { host, time_max }))?;
        let answer = Answer {
            host: host_of(&head.url),
            incoming,
            until,
            time_max,
            bytes: 0,
            bytes_max: self.options.limits.fetch_bytes_max,
        };
        Ok((head, answer))
    }

    async fn follow(&self, request: Request) -> Result<(Head, Incoming), Error> {
        let Request {
            mut url,
            mut method,
            mut headers,
            mut body,
            redirect,
        } = request;
        for count in 0..=REDIRECTS_MAX {
            check(&url, &self.options)?;
            let answer = self.send(&url, &method, &headers, body.clone()).await?;
            let redirected = |reason: String| Error::Redirected {
                host: host_of(&url),
                reason,
            };
            let status = answer.status();
            let location = answer.headers().get(LOCATION);
            let location = location.filter(|_| matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308));
            let Some(location) = location.filter(|_| redirect != Redirect::Manual) else {
                let (parts, incoming) = answer.into_parts();
                let head = Head {
                    status,
                    url,
                    redirected: count > 0,
                    headers: parts.headers,
                };
                return Ok((head, incoming));
            };
            if redirect == Redirect::Error {
                return Err(redirected("this fetch follows no redirects".into()));
            }
            let next = std::str::from_utf8(location.as_bytes()).ok();
            let next = next.and_then(|location| url.join(location).ok());
            let next = next.ok_or_else(|| redirected("its `location` is no address".into()))?;
            let becomes_get = match status.as_u16() {
                301 | 302 => method == Method::POST,
                303 => !matches!(method, Method::GET | Method::HEAD),
                _ => false,
            };
            if becomes_get {
                method = Method::GET;
                body = Bytes::new();
                headers.remove(CONTENT_TYPE);
                headers.remove(CONTENT_LENGTH);
            }
            if next.origin() != url.origin() {
                headers.remove(AUTHORIZATION);
                headers.remove(COOKIE);
            }
            url = next;
        }
        Err(Error::Redirected {
            host: host_of(&url),
            reason: format!("{REDIRECTS_MAX} redirects were followed"),
        })
    }

    async fn send(
        &self,
        url: &Url,
        method: &Method,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<hyper::Response<Incoming>, Error> {
        let failed = |reason: String| Error::Failed {
            host: host_of(url),
            reason,
        };
        let uri: Uri = url[..url::Position::AfterQuery]
            .parse()
            .map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
        let mut request = hyper::Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = headers.clone();
        // The client derives this header from the URL.
        request.headers_mut().remove(HOST);
        request
            .headers_mut()
            .entry(HeaderName::from_static("accept"))
            .or_insert(HeaderValue::from_static("*/*"));
        let client = self.client().map_err(|reason| failed(reason.to_owned()))?;
        client
            .send(request)
            .await
            .map_err(|error| failed(error.to_string()))
    }

    fn client(&self) -> Result<&HttpClient, &'static str> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let authorities = forebay_tls::system_authorities();
        if authorities.is_empty() {
            return Err("this system has no certificates of authorities");
        }
        Ok(self.client.get_or_init(|| HttpClient::new(authorities, false)))
    }
}

/// The body of a response, read as the script consumes it.
#[derive(Debug)]
pub(crate) struct Answer {
    host: String,
    incoming: Incoming,
    until: Instant,
    time_max: Duration,
    bytes: usize,
    bytes_max: usize,
}

impl Answer {
    /// The next piece; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        loop {
            let frame = tokio::time::timeout_at(self.until.into(), self.incoming.frame()).await;
            let frame = frame.map_err(|_| Error::Time {
                host: self.host.clone(),
                time_max: self.time_max,
            })?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|error| Error::Failed {
                host: self.host.clone(),
                reason: with_causes(&error),
            })?;
            // Trailers are ignored.
            let Ok(bytes) = frame.into_data() else { continue };
            if bytes.is_empty() {
                continue;
            }
            self.bytes += bytes.len();
            if self.bytes > self.bytes_max {
                return Err(Error::Long {
                    host: self.host.clone(),
                    bytes_max: self.bytes_max,
                });
            }
            return Ok(Some(bytes));
        }
    }
}
