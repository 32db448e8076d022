//! Targets that only accept POST.

use crate::{failure::Refusal, front::Head, reply::Reply};

/// Methods of a target that only accepts POST, as an Allow field lists them.
pub(super) const POSTED: &str = "OPTIONS, POST";

/// `None` for POST, which the target handles; the response to OPTIONS; or a refusal of any other method.
pub(super) fn unless_posted(head: &Head, methods: &'static str) -> Result<Option<Reply<'static>>, Refusal> {
    match head.method() {
        "POST" => Ok(None),
        "OPTIONS" => {
            let mut reply = Reply::new(204);
            reply.headers.to_mut().push_known("allow", methods);
            Ok(Some(reply))
        }
        _ => {
            let allow = methods.into();
            Err(Refusal::MethodNotAllowed { allow })
        }
    }
}
