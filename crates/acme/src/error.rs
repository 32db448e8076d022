//! Why no certificate was obtained.

use std::{io, path::PathBuf};

use forebay_tls::CertificateError;

use crate::ORDER_TIME_MAX;

#[derive(Debug, thiserror::Error)]
pub(crate) enum OrderError {
    #[error("the authority gives none")]
    Acme(#[from] instant_acme::Error),
    #[error("the authority does not let the server prove by {challenge} that it has `{domain}`")]
    NoChallenge { domain: String, challenge: &'static str },
    #[error("the authority has not seen by {challenge} that this server has `{domain}`: {reason}")]
    Unproven {
        domain: String,
        challenge: &'static str,
        reason: String,
    },
    #[error("the authority has given a certificate that is not for `{domain}`")]
    OtherNames { domain: String },
    #[error(
        "the new certificate, good until {until}, is due for renewal already: is the clock of this machine right?"
    )]
    Due { until: String },
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error("`{}` cannot be used", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("the proof for the authority cannot be made")]
    Proof(#[source] io::Error),
    #[error("another process has been ordering certificates in `{}` for {ORDER_TIME_MAX:?}", folder.display())]
    Locked { folder: PathBuf },
    #[error("the order is not complete after {ORDER_TIME_MAX:?}")]
    Time,
}

impl OrderError {
    /// Whether to try again soon costs nothing of what an authority allows, because a request has not reached it.
    pub(crate) fn is_cheap(&self) -> bool {
        match self {
            Self::Acme(error) => matches!(error, instant_acme::Error::Other(_)),
            Self::Locked { .. } => true,
            Self::NoChallenge { .. }
            | Self::Unproven { .. }
            | Self::OtherNames { .. }
            | Self::Due { .. }
            | Self::Certificate(_)
            | Self::File { .. }
            | Self::Proof(_)
            | Self::Time => false,
        }
    }
}
