//! Why credentials are not accepted.

/// Why a client is not let in. The texts are for the client: they never repeat what it has sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The request has no credentials of this kind.
    #[error("credentials are needed")]
    Missing,
    /// A header field with credentials comes more than once.
    #[error("the field with the credentials comes more than once")]
    Repeated,
    /// The credentials cannot be read.
    #[error("malformed credentials: {what}")]
    Malformed {
        /// The reason.
        what: &'static str,
    },
    /// A token has more bytes than are read.
    #[error("the token has more than {bytes_max} bytes (token_bytes_max)")]
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
    /// A token's algorithm is not among those accepted, or does not fit its key.
    #[error("the algorithm of the token is not accepted (algorithms)")]
    Algorithm,
    /// No known key of the issuer is the token's.
    #[error("no key of the issuer is the one of the token")]
    UnknownKey,
    /// The signature is not the issuer's.
    #[error("the signature of the token is not valid")]
    Signature,
    /// A claim is missing, or has the wrong type.
    #[error("the claim `{claim}` of the token is missing or malformed")]
    Claim {
        /// Its name.
        claim: &'static str,
    },
    /// The token is not good any more.
    #[error("the token has expired")]
    Expired,
    /// The token is not good yet.
    #[error("the token is not valid yet")]
    NotYetValid,
    /// The token is from another issuer.
    #[error("the token is from another issuer")]
    Issuer,
    /// The token is for another service.
    #[error("the token is for another audience")]
    Audience,
    /// No one has this token, key or password.
    #[error("the credentials are wrong")]
    Wrong,
    /// The cookie is not one of a session, or the session has ended.
    #[error("the session has ended, or is not one of this server: log in again")]
    Session,
    /// The certificate does not have the name that is asked for.
    #[error("the client certificate has no name of the expected kind (certificate.name)")]
    Nameless,
    /// The keys of the issuer have not been obtained yet, so nothing can be checked.
    #[error("the keys of the token issuer are not available (jwt.keys)")]
    NoKeys,
    /// Too many passwords wait to be checked.
    #[error("too many passwords are being checked ({waiting_max} waiting)")]
    Busy {
        /// The limit.
        waiting_max: usize,
    },
}

impl Refusal {
    /// Whether the same credentials may be accepted later: the cause is not the client's.
    pub fn is_temporary(&self) -> bool {
        matches!(self, Self::NoKeys | Self::Busy { .. })
    }
}
