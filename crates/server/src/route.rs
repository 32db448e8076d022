//! A route with its target, and the order in which a request passes through what the route asks for: policies and authentication
//! (`policy::admit`), changes of the request's fields, the schema of the body, the cache, the target; then the same policies and the
//! compression for the response.

use std::{sync::Arc, time::Duration};

use smallvec::SmallVec;

use crate::{
    compression::Compression,
    failure::Refusal,
    front::{Client, Head},
    metrics::RouteCounts,
    policy::{BodySchema, Policies, admit},
    reply::{HeaderLines, Reply},
    target::{Cors, End, Origins, Request, Target, Via},
};

/// A compiled route: its limits and its target.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) deadline: Duration,
    pub(crate) body_bytes_max: u64,
    /// Origins allowed to make changes; only on routes that change stored data without a handler, and on those that sessions of browsers open.
    pub(crate) origins: Option<Origins>,
    pub(crate) cors: Option<Cors>,
    pub(crate) policies: Policies,
    pub(crate) body_schema: Option<Arc<BodySchema>>,
    /// Fields of every response, those of policies included.
    pub(crate) headers: HeaderLines,
    /// `None`: responses go out as they are.
    pub(crate) compression: Option<Compression>,
    pub(crate) target: Target,
    pub(crate) counts: Arc<RouteCounts>,
}

impl Route {
    /// Answers a request: whatever is checked for every target comes first, and what is done with every response last.
    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        if let Some(problems) = &request.app.problems {
            problems.check(request.head, &self.target, &request.app.config)?;
        }
        let policies: SmallVec<[_; 2]> = request
            .via
            .map(|via| &via.route.policies)
            .into_iter()
            .chain([&self.policies])
            .collect();
        let origins = self.origins.as_ref();
        let origins = origins.or(request.via.and_then(|via| via.route.origins.as_ref()));
        let origins = origins.map(|origins| (origins, self.cors.as_ref()));
        let left = admit(&policies, origins, request, client).await?;
        client.limit_body(self.body_bytes_max)?;
        // Sessions are for the server alone: handlers and other servers could otherwise act as their users elsewhere.
        let has_logins = request.app.has_logins && !matches!(self.target, Target::Login(_));
        let without = has_logins.then(|| request.head.without_login_cookies()).flatten();
        let changed = Policies::change_request(&policies, without.as_ref().unwrap_or(request.head));
        let head = changed.as_deref().or(without.as_ref());
        let of_target = head.map(|head| Request { head, ..*request });
        let of_target = of_target.as_ref().unwrap_or(request);
        if let Some(schema) = &self.body_schema {
            schema.check(of_target, client).await?;
        }
        let mut reply = match &self.policies.cache {
            None => self.target.answer(of_target, client).await?,
            Some(cache) => match cache.look_up(of_target) {
                Ok(reply) => reply,
                Err(miss) => Box::pin(cache.fill(miss, self, of_target, client)).await?,
            },
        };
        self.policies.apply(left, &mut reply);
        if let Some(via) = request.via {
            via.apply(&self.headers, &mut reply);
        }
        Ok(match &self.compression {
            Some(compression) => compression.apply(request, reply),
            None => reply,
        })
    }

    /// The response to a refused request that this route was to answer.
    pub(crate) fn refused(
        &self,
        via: Option<Via<'_>>,
        refusal: &Refusal,
        head: &Head,
        id: &str,
    ) -> Reply<'static> {
        match via {
            None => self.policies.refused(refusal, head, id),
            Some(via) => via.refused(self, refusal, head, id),
        }
    }
}
