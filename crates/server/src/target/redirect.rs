//! Redirects, and rewrites: requests that another address or another route answers.

use forebay_router::{Pattern, Template};

use super::Request;
use crate::{
    config::Redirect,
    failure::Refusal,
    front::Head,
    reply::{HeaderLines, Reply},
    route::Route,
};

/// A redirect to an address that depends on the request.
#[derive(Debug)]
pub(crate) struct RedirectTarget {
    to: Template,
    status: u16,
}

impl RedirectTarget {
    pub(crate) fn new(path: &str, redirect: &Redirect) -> Self {
        Self {
            to: template(path, &redirect.to),
            status: redirect.status,
        }
    }

    pub(crate) fn reply(&self, request: &Request<'_>) -> Reply<'static> {
        let to = self.to.expand(request.params, request.rest, request.head.query());
        let mut reply = Reply::new(self.status);
        reply.headers.to_mut().push_known("location", &to);
        reply
    }
}

/// The template of a route with this path.
pub(crate) fn template(path: &str, text: &str) -> Template {
    let pattern = Pattern::parse(path).expect("the configuration was checked");
    Template::parse(text, &pattern).expect("the configuration was checked")
}

/// The route that sent a request on to the one that answers it. Its policies and headers hold as well.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Via<'a> {
    pub(crate) route: &'a Route,
    /// The request as it came.
    pub(crate) head: &'a Head,
}

impl Via<'_> {
    /// Changes the response of the route that answers, whose headers are `given`.
    pub(crate) fn apply(self, given: &HeaderLines, reply: &mut Reply<'_>) {
        self.route.policies.remove_headers(reply);
        let headers = self.route.headers.fields();
        for (name, value) in headers.filter(|field| !given.fields().any(|given| given == *field)) {
            reply.headers.to_mut().put(name, value);
        }
    }

    /// Changes the response to a request that the route that answers has refused.
    pub(crate) fn refused(
        self,
        answering: &Route,
        refusal: &Refusal,
        head: &Head,
        id: &str,
    ) -> Reply<'static> {
        let mut reply = answering.policies.refused(refusal, head, id);
        if !answering.policies.has_error_page(reply.status) {
            self.route.policies.put_error_page(head, &mut reply);
        }
        self.apply(&answering.headers, &mut reply);
        reply
    }
}
