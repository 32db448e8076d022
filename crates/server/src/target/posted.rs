//! Targets that take POST.

use crate::{failure::Refusal, front::Head, reply::Reply};

/// What a target takes that takes nothing else.
pub(super) const POSTED: &str = "OPTIONS, POST";

/// The answer to whoever asks for the methods, which are these; `None`: it is a POST, and the target answers.
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
