//! The paths of logins: where the issuer sends browsers back, and where sessions end.

use std::{sync::Arc, time::SystemTime};

use forebay_auth::{OidcClient, Redirect};

use super::{End, Origins, Request, wait_for};
use crate::{auth::put_redirect, failure::Refusal, front::Client, reply::Reply};

/// A path of logins.
#[derive(Debug)]
pub(crate) struct LoginTarget {
    client: Arc<OidcClient>,
    /// Whether sessions end here; else logins are finished.
    is_logout: bool,
}

impl LoginTarget {
    pub(crate) fn new(client: Arc<OidcClient>, is_logout: bool) -> Self {
        Self { client, is_logout }
    }

    pub(super) async fn answer(
        &self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let (head, site) = (request.head, request.site());
        if self.is_logout {
            if !Origins::is_of_this_site(head) {
                return Err(Refusal::LogoutElsewhere.into());
            }
            return Ok(reply(&self.client.logout(site)));
        }
        client.before_waiting().await?;
        let cookie = |name: &str| head.cookie(name);
        let finished = self.client.finish(site, head.query(), cookie, SystemTime::now());
        let redirect = wait_for(finished, request.deadline, client).await?;
        Ok(reply(&redirect.map_err(Refusal::Login)?))
    }
}

/// The response that sends a browser on.
fn reply(redirect: &Redirect) -> Reply<'static> {
    let mut reply = Reply::new(303);
    put_redirect(reply.headers.to_mut(), redirect);
    reply
}
