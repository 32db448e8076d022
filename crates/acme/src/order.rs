//! One order: from the names to a certificate.

use std::sync::Arc;

use instant_acme::{
    Account, AuthorizationStatus, ChallengeType, Error, Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};

use crate::{
    Challenge, ORDER_TIME_MAX, Settings, account,
    challenges::{Challenges, Expected},
    error::OrderError,
    folder::Folder,
    http::RetryAfter,
};

/// How often an authority is asked what has become of an order.
const POLLING: RetryPolicy = RetryPolicy::new().timeout(ORDER_TIME_MAX);
/// The type of problem of an account that the authority does not know, or no longer (RFC 8555, 6.7).
const NO_ACCOUNT: &str = "urn:ietf:params:acme:error:accountDoesNotExist";

impl Challenge {
    fn kind(self) -> ChallengeType {
        match self {
            Self::TlsAlpn01 => ChallengeType::TlsAlpn01,
            Self::Http01 => ChallengeType::Http01,
        }
    }

    /// The name that RFC 8555 or RFC 8737 gives it.
    pub fn name(self) -> &'static str {
        match self {
            Self::TlsAlpn01 => "tls-alpn-01",
            Self::Http01 => "http-01",
        }
    }
}

/// Obtains a certificate. Returns its chain and then its key, as PEM.
pub(crate) async fn obtain(
    settings: &Settings,
    folder: Folder<'_>,
    challenges: &Arc<Challenges>,
    retry_after: &RetryAfter,
) -> Result<String, OrderError> {
    let account = account::open(settings, folder, retry_after, false).await?;
    let mut order = match begin(&account, settings).await {
        Err(Error::Api(problem)) if problem.r#type.as_deref() == Some(NO_ACCOUNT) => {
            let account = account::open(settings, folder, retry_after, true).await?;
            begin(&account, settings).await?
        }
        begun => begun?,
    };
    let _expected = prove(&mut order, settings.challenge, challenges).await?;
    match order.poll_ready(&POLLING).await {
        Ok(OrderStatus::Invalid) | Err(Error::Api(_)) => {
            return Err(unproven(&mut order, settings.challenge).await?);
        }
        polled => polled?,
    };
    let key = order.finalize().await?;
    let chain = order.poll_certificate(&POLLING).await?;
    Ok(chain + &key)
}

async fn begin(account: &Account, settings: &Settings) -> Result<Order, Error> {
    let names = settings.domains.iter().cloned();
    let names: Vec<Identifier> = names.map(Identifier::Dns).collect();
    account.new_order(&NewOrder::new(&names)).await
}

/// Gets the proofs ready and has the authority look at them, which it does while the result exists.
async fn prove(
    order: &mut Order,
    kind: Challenge,
    challenges: &Arc<Challenges>,
) -> Result<Vec<Expected>, OrderError> {
    let mut expected = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        // The others have been proven by an order before.
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let domain = authorization.identifier().to_string();
        let Some(mut challenge) = authorization.challenge(kind.kind()) else {
            let challenge = kind.name();
            return Err(OrderError::NoChallenge { domain, challenge });
        };
        let proof = challenge.key_authorization();
        let guard = challenges.expect(kind, &domain, &challenge.token, &proof);
        expected.push(guard.map_err(OrderError::Proof)?);
        challenge.set_ready().await?;
    }
    Ok(expected)
}

/// The reason for which an order has become invalid.
async fn unproven(order: &mut Order, kind: Challenge) -> Result<OrderError, Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        authorization.refresh().await?;
        let problem = authorization
            .challenges
            .iter()
            .find_map(|tried| tried.error.as_ref());
        if let Some(problem) = problem {
            return Ok(OrderError::Unproven {
                domain: authorization.identifier().to_string(),
                challenge: kind.name(),
                reason: problem.to_string(),
            });
        }
    }
    let problem = order.state().error.clone();
    Ok(problem
        .map_or(Error::Str("the reason for which an order is invalid"), Error::Api)
        .into())
}
