//! Whether a request may reach its target: the address of the client, rate limits, the page that it comes from, and who the client is.

use std::{ptr, sync::Arc, time::Instant};

use smallvec::SmallVec;

use super::{
    Policies,
    rate_limit::{Left, RateLimiter, Sender},
};
use crate::{
    failure::Refusal,
    front::Client,
    target::{Cors, End, Origins, Request},
};

/// Admits a request, or refuses it; says what is left of the rate limit that is nearest to its end. `policies` are those of each route on the way
/// of the request; a limit that several of them have counts it once.
pub(crate) async fn admit(
    policies: &[&Policies],
    origins: Option<(&Origins, Option<&Cors>)>,
    request: &Request<'_>,
    client: &mut dyn Client,
) -> Result<Option<Left>, End> {
    for policies in policies {
        policies.check_address(request.peer)?;
    }
    let mut sender = Sender {
        head: request.head,
        peer: request.peer,
        user: None,
    };
    let mut counted = Counted::default();
    for policies in policies {
        counted.count(&policies.rate_limits, &sender, request.arrived)?;
    }
    if let Some((origins, cors)) = origins {
        origins.check(request.head, cors)?;
    }
    // The route that answers comes last. The first identity is the one that its handler sees.
    for auth in policies
        .iter()
        .rev()
        .filter_map(|policies| policies.auth.as_ref())
    {
        let user = auth.check(request, client).await?;
        sender.user.get_or_insert(user);
    }
    for policies in policies {
        counted.count(&policies.user_limits, &sender, request.arrived)?;
    }
    Ok(counted.left)
}

/// The rate limits that have counted a request.
#[derive(Debug, Default)]
struct Counted<'a> {
    /// Each with the client that it has counted the request for.
    by: SmallVec<[(&'a RateLimiter, u64); 4]>,
    /// The rest of the limit that is nearest to its end.
    left: Option<Left>,
}

impl<'a> Counted<'a> {
    /// Counts the request for these limits, each once. If one of them refuses it, it counts for none, nor for those that have counted it before.
    fn count(
        &mut self,
        limiters: &'a [Arc<RateLimiter>],
        sender: &Sender<'_>,
        now: Instant,
    ) -> Result<(), Refusal> {
        for limiter in limiters {
            if self
                .by
                .iter()
                .any(|(other, _)| ptr::eq(*other, Arc::as_ptr(limiter)))
            {
                continue;
            }
            let client = limiter.client(sender);
            match limiter.take(client, now) {
                Ok(left) => {
                    self.by.push((limiter, client));
                    self.left = Left::nearest(self.left, Some(left));
                }
                Err(left) => {
                    for (limiter, client) in self.by.drain(..) {
                        limiter.give_back(client);
                    }
                    return Err(Refusal::RateLimited { left });
                }
            }
        }
        Ok(())
    }
}
