//! Requests to authorities, each within a limit of time and size.

use std::{
    error::Error as StdError,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use http::{
    Method, Request,
    header::{HeaderValue, RETRY_AFTER, USER_AGENT},
};
use http_body_util::{BodyExt as _, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use parking_lot::Mutex;
use rustls::RootCertStore;
use tokio::time::timeout;

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
    #[error("{url} has not answered after {REQUEST_TIME_MAX:?}")]
    Time { url: String },
    #[error("{url} cannot be asked")]
    Failed {
        url: String,
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    #[error("{url} answers with status {status}")]
    Status { url: String, status: u16 },
}

pub(crate) struct Http {
    client: Client<HttpsConnector<HttpConnector>, BodyWrapper<Bytes>>,
    retry_after: RetryAfter,
}

impl Http {
    /// Asks servers whose certificates are of these authorities.
    pub(crate) fn new(authorities: RootCertStore, retry_after: &RetryAfter) -> Self {
        let connector = HttpsConnectorBuilder::new().with_tls_config(forebay_tls::client_config(authorities));
        Self {
            client: Client::builder(TokioExecutor::new())
                .build(connector.https_only().enable_http1().build()),
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
        let sent = self.client.request(request);
        let retry_after = Arc::clone(&self.retry_after);
        let response = async move {
            let (parts, body) = sent.await?.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?.to_bytes();
            Ok((parts, body))
        };
        Box::pin(async move {
            let other = |error: RequestError| Error::Other(Box::new(error));
            let (parts, body) = match timeout(REQUEST_TIME_MAX, response).await {
                Ok(Ok(received)) => received,
                Ok(Err(source)) => return Err(other(RequestError::Failed { url, source })),
                Err(_) => return Err(other(RequestError::Time { url })),
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
