//! Metadata of an OpenID provider (OpenID Connect Discovery 1.0, 3).

use std::net::IpAddr;

use http::Uri;
use serde::Deserialize;

/// The document cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MetadataError {
    #[error("it is not the configuration of an OpenID provider: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("it is the configuration of another issuer: `issuer` differs")]
    Issuer,
    #[error("its `{member}` is not a URL with `https:`")]
    Url { member: &'static str },
}

/// The endpoints of a provider.
#[derive(Debug)]
pub(crate) struct Metadata {
    pub(crate) authorization: Uri,
    pub(crate) token: Uri,
    pub(crate) jwks: Uri,
    pub(crate) userinfo: Option<Uri>,
    pub(crate) end_session: Option<Uri>,
    /// Whether clients prove who they are by `Authorization: Basic`, not in the body.
    pub(crate) takes_basic: bool,
    /// Whether each authorization response names its issuer (RFC 9207).
    pub(crate) names_issuer: bool,
}

#[derive(Deserialize)]
struct Written {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(default)]
    authorization_response_iss_parameter_supported: bool,
}

/// Where a provider has its document.
pub(crate) fn discovery_url(issuer: &str) -> String {
    format!(
        "{}/.well-known/openid-configuration",
        issuer.strip_suffix('/').unwrap_or(issuer)
    )
}

/// Whether a response from a URL cannot be changed on its way: the URL begins with `https:`, or with `http:` for an address of this machine.
pub fn is_protected(url: &Uri) -> bool {
    let host = url.host().unwrap_or_default();
    match url.scheme_str() {
        Some("https") => !host.is_empty(),
        Some("http") => is_loopback(host),
        _ => false,
    }
}

/// Whether a host, without a port, is this machine.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

impl Metadata {
    /// Reads the document of this issuer.
    pub(crate) fn parse(text: &[u8], issuer: &str) -> Result<Self, MetadataError> {
        let written: Written = serde_json::from_slice(text)?;
        if written.issuer != issuer {
            return Err(MetadataError::Issuer);
        }
        let url = |member, text: &str| {
            let url = text.parse().ok().filter(is_protected);
            url.ok_or(MetadataError::Url { member })
        };
        let optional = |member, text: Option<String>| text.map(|text| url(member, &text)).transpose();
        let methods = written.token_endpoint_auth_methods_supported;
        Ok(Self {
            authorization: url("authorization_endpoint", &written.authorization_endpoint)?,
            token: url("token_endpoint", &written.token_endpoint)?,
            jwks: url("jwks_uri", &written.jwks_uri)?,
            userinfo: optional("userinfo_endpoint", written.userinfo_endpoint)?,
            end_session: optional("end_session_endpoint", written.end_session_endpoint)?,
            takes_basic: methods.is_none_or(|methods| methods.iter().any(|one| one == "client_secret_basic")),
            names_issuer: written.authorization_response_iss_parameter_supported,
        })
    }
}
