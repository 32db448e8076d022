//! Fetches key sets, each within a limit of time and of size.

use std::{error::Error as StdError, path::Path, time::Duration};

use bytes::Bytes;
use forebay_tls::CertificateError;
use http::{
    Uri,
    header::{ACCEPT, USER_AGENT},
};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use tokio::time::timeout;

/// From the first byte of a request to the last of its response.
const FETCH_TIME_MAX: Duration = Duration::from_secs(10);
/// The longest key set: a key has some hundred bytes.
const KEY_SET_BYTES_MAX: usize = 256 << 10;

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
pub(crate) struct Fetcher(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

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

    pub(crate) async fn get(&self, url: &Uri) -> Result<Bytes, FetchError> {
        let request = http::Request::get(url)
            .header(ACCEPT, "application/jwk-set+json, application/json")
            .header(USER_AGENT, concat!("forebay/", env!("CARGO_PKG_VERSION")))
            .body(Empty::new())
            .map_err(|error| FetchError::Failed(error.into()))?;
        let sent = self.0.request(request);
        let response = async {
            let (head, body) = sent
                .await
                .map_err(|error| FetchError::Failed(error.into()))?
                .into_parts();
            // Redirections are not followed: they could lead to keys of somebody else.
            if !head.status.is_success() {
                return Err(FetchError::Status(head.status.as_u16()));
            }
            let body = Limited::new(body, KEY_SET_BYTES_MAX).collect().await;
            Ok(body.map_err(FetchError::Failed)?.to_bytes())
        };
        timeout(FETCH_TIME_MAX, response)
            .await
            .unwrap_or(Err(FetchError::Time))
    }
}
