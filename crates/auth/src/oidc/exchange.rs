//! Asks an issuer for the tokens of a login, and for the claims that its ID token lacks.

use std::{sync::Arc, time::SystemTime};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use form_urlencoded::{Serializer, byte_serialize};
use http::{
    Request, StatusCode, Uri,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE},
    request::Builder,
};
use jsonwebtoken::Algorithm;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{LoginError, OidcClient, OidcSettings, Session, id_token::Expected, provider::Metadata};
use crate::{
    Refusal,
    claims::{self, words},
    fetch::{FetchError, Fetcher},
};

/// An authorization code, with what its login was begun with.
pub(super) struct CodeGrant {
    pub(super) code: String,
    pub(super) redirect_uri: String,
    pub(super) verifier: String,
    pub(super) nonce: String,
}

/// A response of the token endpoint (RFC 6749, 5.1).
#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: Option<String>,
    scope: Option<String>,
}

/// An error response (RFC 6749, 5.2).
#[derive(Deserialize)]
struct TokenError {
    error: String,
}

fn unavailable(what: &str, uri: &Uri, cause: &str) -> LoginError {
    LoginError::Unavailable {
        cause: format!("{uri} ({what}): {cause}"),
    }
}

impl CodeGrant {
    /// The session of the user that the issuer has authenticated.
    pub(super) async fn redeem(
        self,
        client: Arc<OidcClient>,
        fetcher: Arc<Fetcher>,
        metadata: Arc<Metadata>,
        now: SystemTime,
    ) -> Result<Session, LoginError> {
        let tokens = self.tokens(&client, &fetcher, &metadata).await?;
        let settings = client.jwt.settings();
        let (token, algorithm) = id_token(&client, tokens.id_token.as_bytes(), now).await?;
        let expected = Expected {
            client_id: &client.settings.client_id,
            nonce: &self.nonce,
            access_token: tokens.access_token.as_deref(),
        };
        expected.check(&token, algorithm, settings, now)?;
        let subject = claims::text(&token, "sub").map_err(LoginError::IdToken)?;
        let mut selected = claims::selected(&token, settings);
        if selected.len() < settings.claims.len()
            && let Some((uri, access_token)) = metadata.userinfo.as_ref().zip(tokens.access_token)
        {
            let further = userinfo(&fetcher, uri, &access_token, subject).await?;
            let further = claims::selected(&further, settings);
            for (name, value) in further {
                selected.entry(name).or_insert(value);
            }
        }
        Ok(Session {
            subject: subject.to_owned(),
            // RFC 6749, 5.1: without them, those that were asked for.
            scopes: words(&tokens.scope.unwrap_or_else(|| client.scope())),
            claims: selected,
            until: 0,
        })
    }

    async fn tokens(
        &self,
        client: &OidcClient,
        fetcher: &Fetcher,
        metadata: &Metadata,
    ) -> Result<Tokens, LoginError> {
        let failed = |cause: String| unavailable("token_endpoint", &metadata.token, &cause);
        let (request, body) = self.request(&client.settings, metadata);
        let sent = fetcher.send(request, body).await;
        let response = sent.map_err(|error| failed(error.to_string()))?;
        let (status, body) = (response.status(), response.body());
        if status.is_success() {
            return serde_json::from_slice(body)
                .map_err(|error| failed(format!("its response is not one with an ID token: {error}")));
        }
        let error = serde_json::from_slice::<TokenError>(body).map_or(String::new(), |body| body.error);
        if error == "invalid_grant" {
            return Err(LoginError::Code);
        }
        Err(failed(format!(
            "it answers with status {} {error:?}",
            status.as_u16()
        )))
    }

    /// The request for tokens and its body (RFC 6749, 4.1.3).
    fn request(&self, settings: &OidcSettings, metadata: &Metadata) -> (Builder, Bytes) {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code")
            .append_pair("code", &self.code)
            .append_pair("redirect_uri", &self.redirect_uri)
            .append_pair("code_verifier", &self.verifier);
        let mut request = Request::post(&metadata.token)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        match &settings.client_secret {
            Some(secret) if metadata.takes_basic => {
                // RFC 6749, 2.3.1: both are encoded as in a form.
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let both = format!("{}:{}", encoded(&settings.client_id), encoded(secret));
                request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(both)));
            }
            secret => {
                form.append_pair("client_id", &settings.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret);
                }
            }
        }
        (request, form.finish().into())
    }
}

/// The claims of an ID token by the issuer's keys, which are fetched if they do not have its key.
async fn id_token(
    client: &OidcClient,
    token: &[u8],
    now: SystemTime,
) -> Result<(Map<String, Value>, Algorithm), LoginError> {
    let mut checked = client.jwt.claims(token, now);
    if let Err(Refusal::UnknownKey) = checked
        && let Some(renewed) = client.jwt.keys().renewed()
    {
        renewed.await;
        checked = client.jwt.claims(token, now);
    }
    checked.map_err(LoginError::IdToken)
}

/// The claims of the user with this subject (OpenID Connect Core 1.0, 5.3).
async fn userinfo(
    fetcher: &Fetcher,
    uri: &Uri,
    access_token: &str,
    subject: &str,
) -> Result<Map<String, Value>, LoginError> {
    let failed = |cause: String| unavailable("userinfo_endpoint", uri, &cause);
    let request = Request::get(uri)
        .header(ACCEPT, "application/json")
        .header(AUTHORIZATION, format!("Bearer {access_token}"));
    let sent = fetcher.send(request, Bytes::new()).await;
    let response = sent.map_err(|error| failed(error.to_string()))?;
    let (status, body) = (response.status(), response.body());
    if status != StatusCode::OK {
        return Err(failed(FetchError::Status(status.as_u16()).to_string()));
    }
    let claims: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| failed(format!("its response is not a JSON object of claims: {error}")))?;
    // OpenID Connect Core 1.0, 5.3.2: of another user, they must not be used.
    if claims.get("sub").and_then(Value::as_str) != Some(subject) {
        return Err(failed("it answers with another user's claims".to_owned()));
    }
    Ok(claims)
}
