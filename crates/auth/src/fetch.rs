//! Requests to token issuers, each within a limit of time and of size.

use std::{error::Error as StdError, path::Path, time::Duration};

use bytes::Bytes;
use forebay_tls::CertificateError;
use http::{
    StatusCode, Uri,
    header::{ACCEPT, USER_AGENT},
    request::Builder,
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

/// From the first byte of a request to the last of its response.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest response: a key has some hundred bytes.
const RESPONSE_BYTES_MAX: usize = 256 << 10;

/// No response, or none that is of use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("it has not answered after {FETCH_TIME_MAX:?}")]
    Time,
    #[error("{}", with_causes(&**.0))]
    Failed(Box<dyn StdError + Send + Sync>),
    #[error("it answers with status {0}")]
    Status(u16),
}

fn with_causes(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[derive(Debug)]
pub(crate) struct Fetcher(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl Fetcher {
    /// Asks servers whose certificates are of the authorities in a PEM file, or of those that the system trusts.
    pub(crate) fn new(ca: Option<&Path>) -> Result<Self, CertificateError> {
        let authorities = match ca {
            Some(file) => forebay_tls::authorities(file)?,
            None => forebay_tls::system_authorities(),
        };
        let connector = HttpsConnectorBuilder::new().with_tls_config(forebay_tls::client_config(authorities));
        let connector = connector.https_or_http().enable_http1().build();
        Ok(Self(Client::builder(TokioExecutor::new()).build(connector)))
    }

    /// The body of a document.
    pub(crate) async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let request = http::Request::get(url).header(ACCEPT, "application/jwk-set+json, application/json");
        match self.send(request, Bytes::new()).await? {
            (status, body) if status.is_success() => Ok(body),
            (status, _) => Err(FetchError::Status(status.as_u16())),
        }
    }

    /// The status and the body of a response. Redirections are not followed: they could lead to keys of somebody else.
    pub(crate) async fn send(
        &self,
        request: Builder,
        body: Bytes,
    ) -> Result<(StatusCode, Bytes), FetchError> {
        let request = request
            .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .body(Full::new(body))
            .map_err(|error| FetchError::Failed(error.into()))?;
        let sent = self.0.request(request);
        let response = async {
            let response = sent.await.map_err(|error| FetchError::Failed(error.into()))?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await;
            Ok((head.status, body.map_err(FetchError::Failed)?.to_bytes()))
        };
        timeout(FETCH_TIME_MAX, response)
            .await
            .unwrap_or(Err(FetchError::Time))
    }
}
