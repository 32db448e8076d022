//! Requests to token issuers, each within a limit of time and of size.

use std::{path::Path, time::Duration};

use bytes::Bytes;
use forebay_http_client::{HttpClient, HttpError};
use forebay_tls::CertificateError;
use http::{Response, Uri, header::ACCEPT, request::Builder};

/// From the first byte of a request to the last of its response.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest response: a key has some hundred bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 10;

/// No response, or none that is of use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error(transparent)]
    Failed(#[from] HttpError),
    #[error("it answers with status {0}")]
    Status(u16),
}

#[derive(Debug)]
pub(crate) struct Fetcher(HttpClient);

impl Fetcher {
    /// Asks servers whose certificates are of the authorities in a PEM file, or of those that the system trusts.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, CertificateError> {
        let authorities = match ca {
            Some(file) => forebay_tls::authorities(file)?,
            None => forebay_tls::system_authorities(),
        };
        Ok(Self(HttpClient::new(authorities, false)))
    }

    /// The body of a document.
    pub(crate) async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let request = http::Request::get(url).header(ACCEPT, "application/jwk-set+json, application/json");
        let response = self.send(request, Bytes::new()).await?;
        match response.status() {
            status if status.is_success() => Ok(response.into_body()),
            status => Err(FetchError::Status(status.as_u16())),
        }
    }

    /// The response to a request. Redirections are not followed: they could lead to keys of somebody else.
    pub(crate) async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Bytes>, HttpError> {
        let request = request
            .body(body.into())
            .map_err(|error| HttpError::Failed(error.into()))?;
        self.0.whole(request, FETCH_TIME_MAX, RESPONSE_BYTES_MAX).await
    }
}
