//! Everything that ends a request other than its answer, and the one place where each becomes a status and a body.

use std::time::Duration;

use crate::reply::Reply;

/// Why a request is not answered as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("malformed request: {what}")]
    Malformed { what: &'static str },
    #[error("only HTTP/1.0 and HTTP/1.1 are understood")]
    Version,
    #[error("only the transfer coding `chunked` is understood")]
    TransferCoding,
    #[error("only the expectation `100-continue` is understood")]
    Expectation,
    #[error("header section is too large (header_bytes_max {header_bytes_max})")]
    HeadTooLarge { header_bytes_max: usize },
    #[error("more than {max} header fields")]
    TooManyFields { max: usize },
    #[error("header section did not arrive within {header_timeout:?} (header_timeout)")]
    HeadTimeout { header_timeout: Duration },
    #[error("body is larger than {body_bytes_max} bytes (body_bytes_max)")]
    BodyTooLarge { body_bytes_max: u64 },
    #[error("body did not arrive within {body_timeout:?} (body_timeout)")]
    BodyTimeout { body_timeout: Duration },
    #[error("no route has this path")]
    NotFound,
    #[error("method is not allowed here; allowed: {allow}")]
    MethodNotAllowed { allow: String },
    #[error("there is no such file")]
    NoSuchFile,
    #[error("file cannot be read")]
    FileUnreadable,
    #[error("handler's answer is not valid HTTP: {what}")]
    InvalidAnswer { what: &'static str },
    #[error(transparent)]
    Pool(#[from] forebay_pool::Failure),
}

/// Kinds of failure, each with one status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Timeout,
    BodyTooLarge,
    Expectation,
    HeadTooLarge,
    Internal,
    NotImplemented,
    BadGateway,
    Overload,
    Deadline,
    Version,
}

impl Class {
    const fn status(self) -> u16 {
        match self {
            Self::BadRequest => 400,
            Self::NotFound => 404,
            Self::MethodNotAllowed => 405,
            Self::Timeout => 408,
            Self::BodyTooLarge => 413,
            Self::Expectation => 417,
            Self::HeadTooLarge => 431,
            Self::Internal => 500,
            Self::NotImplemented => 501,
            Self::BadGateway => 502,
            Self::Overload => 503,
            Self::Deadline => 504,
            Self::Version => 505,
        }
    }
}

/// What `Retry-After` says when a pool has no room: by then the queue has moved on.
const RETRY_AFTER_S: &str = "1";

impl Refusal {
    fn class(&self) -> Class {
        use forebay_pool::Failure;
        match self {
            Self::Malformed { .. } => Class::BadRequest,
            Self::Version => Class::Version,
            Self::TransferCoding => Class::NotImplemented,
            Self::Expectation => Class::Expectation,
            Self::HeadTooLarge { .. } | Self::TooManyFields { .. } => Class::HeadTooLarge,
            Self::HeadTimeout { .. } | Self::BodyTimeout { .. } => Class::Timeout,
            Self::BodyTooLarge { .. } => Class::BodyTooLarge,
            Self::NotFound | Self::NoSuchFile => Class::NotFound,
            Self::MethodNotAllowed { .. } => Class::MethodNotAllowed,
            Self::FileUnreadable | Self::InvalidAnswer { .. } => Class::Internal,
            Self::Pool(failure) => match failure {
                Failure::QueueFull { .. }
                | Failure::QueueBytesFull { .. }
                | Failure::QueueTimeout { .. }
                | Failure::NotStarting { .. }
                | Failure::Stopping { .. } => Class::Overload,
                Failure::RunTimeout { .. } | Failure::DeadlinePassed => Class::Deadline,
                Failure::WorkerDied { .. } => Class::BadGateway,
                Failure::ResponseReset => Class::Internal,
            },
        }
    }

    pub(crate) fn status(&self) -> u16 {
        self.class().status()
    }

    /// The answer that the client gets: problem details (RFC 9457).
    pub(crate) fn reply(&self, request_id: &str) -> Reply<'static> {
        let class = self.class();
        let status = class.status();
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let problem = format!(
            r#"{{"type":"about:blank","title":{},"status":{status},"detail":{},"request_id":{}}}"#,
            text(crate::reply::reason(status)),
            text(&self.to_string()),
            text(request_id),
        );
        let mut reply = Reply::new(status);
        let headers = reply.headers.to_mut();
        headers.push_known("content-type", "application/problem+json");
        if let Self::MethodNotAllowed { allow } = self {
            headers.push_known("allow", allow);
        }
        if class == Class::Overload {
            headers.push_known("retry-after", RETRY_AFTER_S);
        }
        reply.body = crate::reply::Body::Bytes(problem.into());
        reply
    }

    /// Whether the connection cannot go on, because it is unknown where the next request would begin.
    pub(crate) fn ends_connection(&self) -> bool {
        matches!(
            self.class(),
            Class::BadRequest
                | Class::Timeout
                | Class::BodyTooLarge
                | Class::Expectation
                | Class::HeadTooLarge
                | Class::NotImplemented
                | Class::Version
        )
    }
}
