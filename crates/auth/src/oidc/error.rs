//! Why a login fails.

use super::{ATTEMPT_TIME_MAX, LOGINS_MAX};
use crate::Refusal;

/// Why a browser is not logged in. The texts are for its user: they repeat nothing that came with the request. What only the owner may know is in
/// `cause`, for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// Cookies would not be safe.
    #[error("a login needs https, except on this machine")]
    Insecure,
    /// The issuer's endpoints have not been obtained yet.
    #[error("the configuration of the issuer is not available (oidc.issuer)")]
    NotReady,
    /// Too many logins wait for the issuer.
    #[error("too many logins wait for the issuer ({LOGINS_MAX})")]
    Busy,
    /// The issuer's response is not one to a login of this browser.
    #[error(
        "this login was not begun in this browser, or took more than {} minutes: open the page again",
        ATTEMPT_TIME_MAX.as_secs() / 60
    )]
    Unknown,
    /// The issuer's response cannot be read.
    #[error("malformed response of the issuer: {what}")]
    Malformed {
        /// The reason.
        what: &'static str,
    },
    /// The response names another issuer, or none though this one always names itself (RFC 9207).
    #[error("the response is not of this issuer")]
    OtherIssuer,
    /// The issuer has not let the user in.
    #[error("the issuer refuses the login: {code}")]
    Refused {
        /// The error code (RFC 6749, 4.1.2.1): letters, digits and `_`.
        code: String,
    },
    /// The code is not, or no longer, one of the issuer.
    #[error("the issuer does not accept the code: it has been used, or is too old")]
    Code,
    /// The issuer cannot be asked, or answers with something else.
    #[error("the issuer cannot be asked for the user's identity")]
    Unavailable {
        /// The reason.
        cause: String,
    },
    /// The ID token is not acceptable.
    #[error("the ID token of the issuer is not accepted: {0}")]
    IdToken(Refusal),
    /// The ID token is not one of this login.
    #[error("the claim `{claim}` of the ID token is not that of this login")]
    Claim {
        /// The claim's name.
        claim: &'static str,
    },
    /// A browser would not keep the session.
    #[error(
        "the session needs a cookie of {bytes} bytes, browsers keep at most {bytes_max}: name fewer claims (oidc.claims)"
    )]
    TooLong {
        /// The length of its name and value.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

impl LoginError {
    /// The cause, for the log.
    pub fn cause(&self) -> Option<&str> {
        match self {
            Self::Unavailable { cause } => Some(cause),
            _ => None,
        }
    }
}
