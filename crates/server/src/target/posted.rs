//! Targets that take POST alone.

use crate::{failure::Refusal, front::Head, reply::Reply};

const METHODS: &str = "OPTIONS, POST";

/// The answer to whoever asks for the methods; `None`: it is a POST, and the target answers.
pub(super) fn unless_posted(head: &Head) -> Result<Option<Reply<'static>>, Refusal> {
    match head.method() {
        "POST" => Ok(None),
        "OPTIONS" => {
            let mut reply = Reply::new(204);
            reply.headers.to_mut().push_known("allow", METHODS);
            Ok(Some(reply))
        }
        _ => {
            let allow = METHODS.into();
            Err(Refusal::MethodNotAllowed { allow })
        }
    }
}
