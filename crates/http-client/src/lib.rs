//! HTTP/1.1 client for requests that the server itself sends: to token issuers, authorities and collectors, and those of scripts.

mod post;

use std::{error::Error, time::Duration};

use bytes::Bytes;
use http::{
    Request, Response,
    header::{HeaderValue, USER_AGENT},
};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::RootCertStore;
use tokio::time::timeout;

pub use self::post::{Post, PostAddress, PostError, Posted};

/// The user agent of this program.
const NAME: &str = concat!("forebay/", env!("CARGO_PKG_VERSION"));
/// Time that an idle connection stays open.
const IDLE_MAX: Duration = Duration::from_secs(15);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The time limit was exceeded.
    #[error("it has not answered after {0:?}")]
    Time(Duration),
    /// The connection failed, or the response was invalid or too long.
    #[error("{}", with_causes(&**.0))]
    Failed(Box<dyn Error + Send + Sync>),
}

/// An error with its causes, as one sentence.
pub fn with_causes(error: &dyn Error) -> String {
    let chain = std::iter::successors(Some(error), |&error| error.source());
    chain.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// Sends requests, with a pool of connections. Redirections are not followed.
#[derive(Clone, Debug)]
pub struct HttpClient(Client<HttpsConnector<HttpConnector>, Full<Bytes>>);

impl HttpClient {
    /// Accepts the certificates of these authorities; with `https_only`, sends nothing without TLS.
    pub fn new(authorities: RootCertStore, https_only: bool) -> Self {
        let connector = HttpsConnectorBuilder::new().with_tls_config(forebay_tls::client_config(authorities));
        let connector = if https_only {
            connector.https_only()
        } else {
            connector.https_or_http()
        };
        Self(
            Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(IDLE_MAX)
                .build(connector.enable_http1().build()),
        )
    }

    /// Sends a request. The body of the response is still to be read.
    pub async fn send(&self, mut request: Request<Full<Bytes>>) -> Result<Response<Incoming>, HttpError> {
        let agent = request.headers_mut().entry(USER_AGENT);
        agent.or_insert(HeaderValue::from_static(NAME));
        let sent = self.0.request(request).await;
        sent.map_err(|error| HttpError::Failed(error.into()))
    }

    /// Sends a request, and reads the whole response: at most `bytes_max`, within `time_max`.
    pub async fn whole(
        &self,
        request: Request<Full<Bytes>>,
        time_max: Duration,
        bytes_max: usize,
    ) -> Result<Response<Bytes>, HttpError> {
        let response = async {
            let (head, body) = self.send(request).await?.into_parts();
            let body = Limited::new(body, bytes_max).collect().await;
            let body = body.map_err(HttpError::Failed)?.to_bytes();
            Ok(Response::from_parts(head, body))
        };
        let response = timeout(time_max, response).await;
        response.unwrap_or(Err(HttpError::Time(time_max)))
    }
}
