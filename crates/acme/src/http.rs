//! Requests to authorities, each within a limit of time and size.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use forebay_http_client::{HttpClient as Client, HttpError};
use http::{
    Method, Request,
    header::{HeaderValue, RETRY_AFTER, USER_AGENT},
};
use http_body_util::BodyExt as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use rustls::RootCertStore;

/// How this program calls itself (RFC 8555, 6.1).
const NAME: &str = concat!("forebay/", env!("CARGO_PKG_VERSION"), " instant-acme");
/// From the first byte of a request to the last of its response.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);
/// The longest response: chains of certificates have some kilobytes.
const RESPONSE_BYTES_MAX: usize = 1 << 20;

/// When an authority that has refused something wants to be asked again.
pub(crate) type RetryAfter = Arc<Mutex<Option<SystemTime>>>;

/// No response, or none that is of use.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("{url} cannot be asked")]
    Failed {
        url: String,
        #[source]
        source: HttpError,
    },
    #[error("{url} answers with status {status}")]
    Status { url: String, status: u16 },
}

pub(crate) struct Http {
    client: Client,
    retry_after: RetryAfter,
}

impl Http {
    /// Asks servers whose certificates are of these authorities.
    pub(crate) fn new(authorities: RootCertStore, retry_after: &RetryAfter) -> Self {
        Self {
            client: Client::new(authorities, true),
            retry_after: Arc::clone(retry_after),
        }
    }
}

impl HttpClient for Http {
    fn request(
        &self,
        mut request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, Error>> + Send>> {
        let (url, is_get) = (request.uri().to_string(), request.method() == Method::GET);
        request
            .headers_mut()
            .insert(USER_AGENT, HeaderValue::from_static(NAME));
        let (client, retry_after) = (self.client.clone(), Arc::clone(&self.retry_after));
        Box::pin(async move {
            let other = |error: RequestError| Error::Other(Box::new(error));
            let (parts, body) = request.into_parts();
            let Ok(body) = body.collect().await;
            let request = Request::from_parts(parts, body.to_bytes().into());
            let response = client.whole(request, REQUEST_TIME_MAX, RESPONSE_BYTES_MAX).await;
            let (parts, body) = match response {
                Ok(response) => response.into_parts(),
                Err(source) => return Err(other(RequestError::Failed { url, source })),
            };
            if !parts.status.is_success() {
                *retry_after.lock() = parts.headers.get(RETRY_AFTER).and_then(moment);
                // Only the directory is asked for by GET: whatever else comes in its place is none.
                if is_get {
                    let status = parts.status.as_u16();
                    return Err(other(RequestError::Status { url, status }));
                }
            }
            let body = Box::new(body);
            Ok(BytesResponse { parts, body })
        })
    }
}

/// The moment that a `Retry-After` means (RFC 9110, 10.2.3).
fn moment(value: &HeaderValue) -> Option<SystemTime> {
    let text = value.to_str().ok()?;
    match text.parse() {
        Ok(seconds) => SystemTime::now().checked_add(Duration::from_secs(seconds)),
        Err(_) => httpdate::parse_http_date(text).ok(),
    }
}
