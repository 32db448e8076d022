//! Errors that end a request, and their mapping to a status and a body, in one place.

use std::{borrow::Cow, fmt, net::IpAddr, sync::Arc, time::Duration};

use forebay_auth::LoginError;
use forebay_records::{Denial, RecordsError, StatementError};
use forebay_store::{DatabaseError, KeyError, StoreError};
use forebay_workflow::{FailureKind, WorkflowFailure};

mod jobs;
mod sql;

pub(crate) use forebay_workflow::with_causes;

pub(crate) use self::{jobs::JobFailure, sql::SqlFailure};
use crate::{
    auth::{AuthFailure, put_redirect},
    conditions::TagsError,
    policy::Left,
    reply::Reply,
    store::path::PathError,
    watch::Problem,
};

/// The reason a request was not answered as asked.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
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
    #[error(
        "body is larger than {message_bytes_max} bytes, and the pool's protocol has no pieces (message_bytes_max)"
    )]
    MessageTooLarge { message_bytes_max: usize },
    #[error("the body is not JSON: {what}")]
    BodyNotJson { what: String },
    #[error("the body does not match the route's schema (body_schema): {0}")]
    BodySchema(forebay_workflow::Mismatch),
    #[error("{what}")]
    Untellable { what: String },
    #[error("this pool has no store (store)")]
    NoStoreHere,
    #[error("the result has more than {message_bytes_max} bytes (message_bytes_max)")]
    ResultTooLarge { message_bytes_max: usize },
    #[error("the call cannot be read: {what}")]
    BadCall { what: String },
    #[error("the call queue is full ({waiting_max} waiting)")]
    CallQueueFull { waiting_max: usize },
    #[error("the call has taken too long (run_timeout)")]
    CallExpired,
    #[error("body did not arrive within {body_timeout:?} (body_timeout)")]
    BodyTimeout { body_timeout: Duration },
    #[error("the body comes slower than {min_rate} bytes a second (server.min_rate)")]
    BodyTooSlow { min_rate: u64 },
    #[error(
        "this route has no WebSockets; those with `proxy`, with `pool` unless it speaks \"jsonl\" or \"wabur\", and the changes of `store` have"
    )]
    WebSocket,
    #[error("no route has this path")]
    NotFound,
    #[error(
        "the route rewrites to a path whose route is a rewrite, too; a request is rewritten once (route.rewrite)"
    )]
    RewrittenTwice,
    #[error("method is not allowed here; allowed: {allow}")]
    MethodNotAllowed { allow: String },
    #[error("there is no such file")]
    NoSuchFile,
    #[error("the requested range is outside the file of {size} bytes")]
    Range { size: u64 },
    #[error("file cannot be read")]
    FileUnreadable,
    #[error("there is nothing at this path of the store")]
    NoSuchNode,
    #[error(transparent)]
    NodePath(#[from] PathError),
    #[error("query parameter {name:?}: {what}")]
    Query { name: String, what: &'static str },
    #[error("condition {text:?}: {what}")]
    Filter { text: String, what: String },
    #[error("{what}")]
    NoIndex { what: String },
    #[error(transparent)]
    Tags(#[from] TagsError),
    #[error("precondition failed: If-Match or If-None-Match does not hold")]
    Precondition,
    #[error("the document is too long for its tag to be compared (value_bytes_max {max}); only `*` can be")]
    TooLongToCompare { max: usize },
    #[error("only {accepted} is understood here")]
    MediaType { accepted: &'static str },
    #[error("the batch cannot be read: {what}")]
    Batch { what: String },
    #[error("operation {at} of the batch: {cause}")]
    InBatch { at: usize, cause: Box<Refusal> },
    #[error(transparent)]
    InStatement(Box<Refusal>),
    #[error(
        "a record's address ends with its reference, 16 hexadecimal digits, or with its name: a letter first, no slash, at most {} bytes",
        forebay_records::NAME_BYTES_MAX
    )]
    NoReference,
    #[error("{}", .0.0)]
    Records(RecordsFailure),
    #[error("no id is left after {last}")]
    NoIdLeft { last: String },
    #[error("a bearer token is needed to {what} this global")]
    TokenNeeded { what: &'static str },
    #[error("releases are for clients with `releases = true` alone (workflow.clients): send a bearer token")]
    ReleaseTokenNeeded,
    #[error("this client may not read or change releases (workflow.clients: releases)")]
    ReleasesNotAllowed,
    #[error("this token may not {what} this global")]
    WrongToken { what: &'static str },
    #[error("no one may {what} this global over HTTP (store.access)")]
    Closed { what: &'static str },
    #[error("requests from {address} are not admitted (policy.NAME: allow, deny)")]
    AddressDenied { address: IpAddr },
    #[error("more than {} requests in the time that they may take (policy.NAME.rate_limits)", left.limit)]
    RateLimited { left: Left },
    #[error(
        "the request comes from a page of another site ({origin}); to allow it, add that origin to `cors.origins` of the route, or to its `origins` if it has `store`, `records` or `tql`"
    )]
    OtherOrigin { origin: String },
    #[error("{queue_max} writes wait for the store already (store.queue_max)")]
    WriteQueueFull { queue_max: usize },
    #[error("writes that wait for the store hold {queue_bytes_max} bytes already (store.queue_bytes_max)")]
    WriteQueueBytesFull { queue_bytes_max: usize },
    #[error("too many clients read lines from the store (at most {max}); use pages instead")]
    TooManyStreams { max: usize },
    #[error("the request was not answered by its deadline (deadline)")]
    DeadlinePassed,
    #[error("the deadline passed while the write was queued; it was not done")]
    WriteExpired,
    #[error(
        "the deadline passed before the database had confirmed the write; it may still be done (deadline)"
    )]
    WriteUnconfirmed,
    #[error("the server is stopping")]
    Stopping,
    #[error("{0}")]
    Store(StoreFailure),
    #[error("handler's answer is not valid HTTP: {what}")]
    InvalidAnswer { what: &'static str },
    #[error("the answer cannot be compressed: {cause}")]
    Compression { cause: String },
    #[error(transparent)]
    Pool(#[from] forebay_pool::Failure),
    #[error(transparent)]
    Upstream(forebay_upstream::Failure),
    #[error("{}", script_text(.0))]
    Script(forebay_script::Failure),
    #[error("parameter {name:?}: {what}")]
    Parameter { name: String, what: String },
    #[error("the body is not a JSON object of parameters: {what}")]
    ParameterBody { what: String },
    #[error("there is no such row")]
    NoRow,
    #[error("{0}")]
    Sql(SqlFailure),
    #[error(transparent)]
    Workflow(WorkflowFailure),
    #[error("{0}")]
    Job(JobFailure),
    #[error("{what}")]
    Field { what: String },
    #[error("the system has no random numbers: {reason}")]
    NoRandomNumbers { reason: String },
    #[error(transparent)]
    Auth(Box<AuthFailure>),
    #[error(transparent)]
    Login(LoginError),
    #[error("a session is ended by pages of this site only: open this address in a window of its own")]
    LogoutElsewhere,
    #[error("the newest code is not in force: {0}")]
    NewestCode(Arc<Problem>),
}

/// An error of the store. Clients see errors they caused and commits that stand although flushing failed; everything else is only logged.
#[derive(Clone, Debug)]
pub(crate) struct StoreFailure(Arc<StoreError>);

impl StoreFailure {
    fn status(&self) -> u16 {
        match &*self.0 {
            StoreError::Key(_)
            | StoreError::Json(_)
            | StoreError::NotANumber { .. }
            | StoreError::NumberTooLong { .. }
            | StoreError::Overlap { .. }
            | StoreError::Index { .. } => 400,
            StoreError::NotUnique { .. } => 409,
            StoreError::ValueTooLong { .. } => 413,
            StoreError::ReadOnly => 403,
            StoreError::ChangesGone { .. } => 410,
            StoreError::Full { .. } => 507,
            StoreError::TooManyReaders { .. }
            | StoreError::TooManyLocks { .. }
            | StoreError::SnapshotTooOld { .. }
            | StoreError::Moved => 503,
            StoreError::Database { error, .. } => match error {
                DatabaseError::Unreachable { .. }
                | DatabaseError::Late { .. }
                | DatabaseError::ReadOnly
                | DatabaseError::Full { .. }
                | DatabaseError::Conflict { .. } => 503,
                DatabaseError::CommitUnknown { .. }
                | DatabaseError::Address { .. }
                | DatabaseError::Other { .. } => 500,
            },
            StoreError::WritesAlready
            | StoreError::Broken
            | StoreError::NotFlushed { .. }
            | StoreError::FlushesFail { .. }
            | StoreError::InDoubt { .. }
            | StoreError::Damaged { .. }
            | StoreError::Format { .. }
            | StoreError::Unrecovered { .. }
            | StoreError::LogWithoutTree { .. }
            | StoreError::ForeignLog { .. }
            | StoreError::Absent { .. }
            | StoreError::OpenAlready { .. }
            | StoreError::InUse { .. }
            | StoreError::Replay { .. }
            | StoreError::File { .. }
            | StoreError::InDatabase { .. }
            | StoreError::Copy { .. }
            | StoreError::Engine { .. } => 500,
        }
    }
}

impl fmt::Display for StoreFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let concerns_clients = matches!(
            *self.0,
            StoreError::NotFlushed { .. } | StoreError::FlushesFail { .. } | StoreError::InDoubt { .. }
        );
        // Where the database is, is no client's business.
        if let StoreError::Database { error, .. } = &*self.0 {
            match error {
                DatabaseError::CommitUnknown { .. } => formatter
                    .write_str("whether the change was made is not known; read it before it is made again"),
                _ => formatter.write_str("the store's database does not do its work; the log says why"),
            }
        } else if self.status() != 500 || concerns_clients {
            self.0.fmt(formatter)
        } else {
            formatter.write_str("the store fails; the log says why")
        }
    }
}

impl PartialEq for StoreFailure {
    /// The same failure may end many requests, but two failures are never equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        Arc::new(error).into()
    }
}

impl From<WorkflowFailure> for Refusal {
    fn from(failure: WorkflowFailure) -> Self {
        let WorkflowFailure::Storage(error) = &failure else {
            return Self::Workflow(failure);
        };
        let source = error.get_ref();
        let stored = source.downcast_ref::<Arc<StoreError>>().cloned().map(Self::from);
        let stored = stored.or_else(|| source.downcast_ref::<Self>().cloned());
        stored.unwrap_or(Self::Workflow(failure))
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::NodePath(error.into())
    }
}

impl From<RecordsError> for Refusal {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Store(error) => error.into(),
            error => Self::Records(RecordsFailure(Arc::new(error))),
        }
    }
}

/// An error of records or TQL, except errors of the store.
#[derive(Clone, Debug)]
pub(crate) struct RecordsFailure(Arc<RecordsError>);

impl RecordsFailure {
    fn status(&self) -> u16 {
        match &*self.0 {
            RecordsError::Store(_) => 500,
            RecordsError::PageMax { .. } => 400,
            RecordsError::Statement(error) if error.syntax => 400,
            RecordsError::Statement(_)
            | RecordsError::NotAnObject { .. }
            | RecordsError::KindNotText { .. }
            | RecordsError::KindName { .. }
            | RecordsError::ExaminedMax { .. }
            | RecordsError::RowsMax { .. }
            | RecordsError::WorkMax { .. }
            | RecordsError::Cursor => 422,
            RecordsError::NoRecord { .. } | RecordsError::NoName { .. } => 404,
            RecordsError::AlreadyExists { .. }
            | RecordsError::LimitExceeded { .. }
            | RecordsError::ReferenceTaken { .. } => 409,
            RecordsError::Denied { denial, .. } | RecordsError::RecordDenied { denial, .. } => match denial {
                Denial::Nobody => 403,
                Denial::TokenNeeded | Denial::WrongToken => 401,
            },
            RecordsError::AnswerBytesMax { .. } => 413,
            RecordsError::ChangeTimeMax { .. } | RecordsError::DeadlinePassed => 504,
            RecordsError::NoReferenceLeft { .. } => 507,
        }
    }

    /// Members of the problem's JSON object besides its text.
    fn details(&self) -> String {
        let code = self.0.code();
        match &*self.0 {
            RecordsError::Statement(StatementError { position, .. }) => {
                let (line, column) = (position.line, position.column);
                format!(",\"code\":{code},\"line\":{line},\"column\":{column}")
            }
            _ => format!(",\"code\":{code}"),
        }
    }
}

impl PartialEq for RecordsFailure {
    /// As for [`StoreFailure`].
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl From<Arc<StoreError>> for Refusal {
    fn from(error: Arc<StoreError>) -> Self {
        Self::Store(StoreFailure(error))
    }
}

/// A script's failure as shown to clients. The position in its files goes only to the log.
fn script_text(failure: &forebay_script::Failure) -> String {
    match failure {
        forebay_script::Failure::Broken { .. } => "the script failed; the log says why".to_owned(),
        failure => failure.to_string(),
    }
}

/// The `WWW-Authenticate` value after a wrong token (RFC 6750, 3).
const WRONG_TOKEN: &str = "Bearer error=\"invalid_token\"";
/// The `WWW-Authenticate` value for requests that are not from a client of the workflows (RFC 7617, 2).
const CLIENTS: &str = "Bearer, Basic realm=\"workflows\", charset=\"UTF-8\"";
/// The `Retry-After` value when a pool is full: a second later its queue has moved on.
const RETRY_AFTER_S: &str = "1";

impl Refusal {
    pub(crate) fn status(&self) -> u16 {
        use forebay_pool::Failure;
        match self {
            Self::Version => 505,
            Self::TransferCoding | Self::WebSocket => 501,
            Self::Expectation => 417,
            Self::HeadTooLarge { .. } | Self::TooManyFields { .. } => 431,
            Self::HeadTimeout { .. } | Self::BodyTimeout { .. } | Self::BodyTooSlow { .. } => 408,
            Self::NotFound | Self::NoRow | Self::NoSuchFile | Self::NoSuchNode | Self::NoReference => 404,
            Self::NodePath(error) => match error {
                PathError::Key(
                    KeyError::GlobalTooLong { .. } | KeyError::TooLong { .. } | KeyError::TooDeep,
                ) => 414,
                PathError::Key(
                    KeyError::EmptyGlobal | KeyError::GlobalCharacter { .. } | KeyError::NotANumber { .. },
                )
                | PathError::Encoding { .. } => 400,
            },
            Self::Malformed { .. }
            | Self::Query { .. }
            | Self::Filter { .. }
            | Self::NoIndex { .. }
            | Self::Tags(_)
            | Self::BadCall { .. }
            | Self::Batch { .. }
            | Self::Parameter { .. }
            | Self::ParameterBody { .. }
            | Self::BodyNotJson { .. }
            | Self::Field { .. }
            | Self::Untellable { .. } => 400,
            Self::Auth(failure) => match &**failure {
                AuthFailure::Refused { cause, .. } if cause.is_temporary() => 503,
                AuthFailure::Refused { .. } => 401,
                AuthFailure::Scope { .. } => 403,
                AuthFailure::Login(_) => 303,
            },
            Self::Login(error) => match error {
                LoginError::NotReady | LoginError::Busy => 503,
                LoginError::Unknown | LoginError::Malformed { .. } | LoginError::Code => 400,
                LoginError::Insecure | LoginError::OtherIssuer | LoginError::Refused { .. } => 403,
                LoginError::Unavailable { .. } | LoginError::IdToken(_) | LoginError::Claim { .. } => 502,
                LoginError::TooLong { .. } => 500,
            },
            Self::BodySchema(_) => 422,
            Self::Precondition => 412,
            Self::BodyTooLarge { .. }
            | Self::MessageTooLarge { .. }
            | Self::TooLongToCompare { .. }
            | Self::ResultTooLarge { .. } => 413,
            Self::MediaType { .. } => 415,
            Self::Range { .. } => 416,
            Self::InBatch { cause, .. } | Self::InStatement(cause) => cause.status(),
            Self::Records(failure) => failure.status(),
            Self::NoIdLeft { .. } => 409,
            Self::TokenNeeded { .. } | Self::WrongToken { .. } | Self::ReleaseTokenNeeded => 401,
            Self::Closed { .. }
            | Self::NoStoreHere
            | Self::AddressDenied { .. }
            | Self::OtherOrigin { .. }
            | Self::LogoutElsewhere
            | Self::ReleasesNotAllowed => 403,
            Self::RateLimited { .. } => 429,
            Self::CallQueueFull { .. }
            | Self::WriteQueueFull { .. }
            | Self::WriteQueueBytesFull { .. }
            | Self::TooManyStreams { .. }
            | Self::Stopping => 503,
            Self::DeadlinePassed | Self::WriteExpired | Self::WriteUnconfirmed | Self::CallExpired => 504,
            Self::Store(failure) => failure.status(),
            Self::Sql(failure) => failure.status(),
            Self::Job(failure) => failure.status(),
            Self::Workflow(failure) => match failure.kind() {
                FailureKind::NotFound => 404,
                FailureKind::BadInput => 400,
                FailureKind::Unauthorized => 401,
                FailureKind::Forbidden => 403,
                FailureKind::TooMany => 429,
                FailureKind::Unprocessable => 422,
                FailureKind::Overload => 503,
                FailureKind::Deadline => 504,
                FailureKind::Internal => 500,
            },
            Self::MethodNotAllowed { .. } => 405,
            Self::FileUnreadable
            | Self::InvalidAnswer { .. }
            | Self::Compression { .. }
            | Self::RewrittenTwice
            | Self::NoRandomNumbers { .. }
            | Self::NewestCode(_) => 500,
            Self::Pool(failure) => match failure {
                Failure::QueueFull { .. }
                | Failure::QueueBytesFull { .. }
                | Failure::QueueTimeout { .. }
                | Failure::TooManyConnections { .. }
                | Failure::NotStarting { .. }
                | Failure::NoHost { .. }
                | Failure::Stopping { .. } => 503,
                Failure::RunTimeout { .. } | Failure::DeadlinePassed => 504,
                Failure::WorkerDied { .. } => 502,
                Failure::ResponseReset | Failure::TooManyRooms { .. } | Failure::InvalidAnswer { .. } => 500,
            },
            Self::Upstream(failure) => {
                use forebay_upstream::Failure;
                match failure {
                    Failure::NoneUp { .. } | Failure::Full { .. } => 503,
                    Failure::Late { .. } | Failure::Stalled { .. } => 504,
                    Failure::Connect { .. }
                    | Failure::ConnectTimeout { .. }
                    | Failure::Closed { .. }
                    | Failure::Invalid { .. }
                    | Failure::CutOff { .. } => 502,
                }
            }
            Self::Script(failure) => {
                use forebay_script::Failure;
                match failure {
                    Failure::Time { .. } | Failure::DeadlinePassed => 504,
                    Failure::Busy { .. } | Failure::BytesFull { .. } | Failure::Stopping => 503,
                    Failure::Memory { .. }
                    | Failure::Output { .. }
                    | Failure::GivenUp
                    | Failure::Broken { .. } => 500,
                }
            }
        }
    }

    /// The same error as part of a batch, for the operation with this index, counted from 0.
    pub(crate) fn in_batch(self, at: usize) -> Self {
        Self::InBatch {
            at,
            cause: Box::new(self),
        }
    }

    /// The same error in a TQL statement, where every error has a code.
    pub(crate) fn in_statement(self) -> Self {
        match self {
            // The former has a code already; the latter's response fields depend on its type.
            Self::Records(_) | Self::MethodNotAllowed { .. } => self,
            other => Self::InStatement(Box::new(other)),
        }
    }

    /// Logs the error if its cause lies in the server rather than in the request. Returns whether it was logged.
    pub(crate) fn log(&self, request_id: &str) -> bool {
        match self {
            Self::Store(failure)
                if failure.status() == 500 || matches!(*failure.0, StoreError::Database { .. }) =>
            {
                let cause = with_causes(&*failure.0);
                tracing::error!(target: "forebay::store", cause, request_id, "the store fails");
                true
            }
            Self::Script(failure @ forebay_script::Failure::Broken { .. }) => {
                tracing::error!(target: "forebay::script", request_id, "{failure}");
                true
            }
            Self::Upstream(failure) => {
                tracing::warn!(target: "forebay::upstream", request_id, "{failure}");
                true
            }
            Self::Login(error) if matches!(self.status(), 502 | 500) => {
                let cause = error.cause();
                tracing::warn!(target: "forebay::auth", request_id, cause, "a login fails: {error}");
                true
            }
            Self::Workflow(failure) => failure.log(request_id),
            Self::Job(failure) if failure.status() == 500 => {
                tracing::error!(target: "forebay::jobs", request_id, "{failure}");
                true
            }
            Self::Sql(failure) => failure.log(request_id),
            Self::InBatch { cause, .. } | Self::InStatement(cause) => cause.log(request_id),
            _ => false,
        }
    }

    /// Logs that the error cuts off a response whose head has been sent: no status can tell the client of it.
    pub(crate) fn log_cut_off(&self, request_id: &str) {
        if !self.log(request_id) {
            tracing::warn!(target: "forebay::front", cause = %self, request_id, "an answer is cut off");
        }
    }

    /// The value of `Retry-After`, if a retry may succeed.
    pub(crate) fn retry_after(&self) -> Option<Cow<'static, str>> {
        if let Self::RateLimited { left } = self {
            return Some(left.retry_s.to_string().into());
        }
        matches!(self.status(), 503 | 429).then_some(RETRY_AFTER_S.into())
    }

    /// The error code of records; -1 for errors that are not theirs.
    pub(crate) fn code(&self) -> i64 {
        match self {
            Self::Records(failure) => failure.0.code().into(),
            _ => -1,
        }
    }

    /// The error's name for handlers, as in the SDK's `StoreError.code`; `None` for errors that cannot occur in their own process.
    pub(crate) fn word(&self) -> Option<&'static str> {
        match self {
            Self::Records(failure) => Some(forebay_records::facade::code_of(&failure.0)),
            Self::Store(failure) => Some(forebay_store::facade::code_of(&failure.0)),
            Self::Precondition => Some("precondition"),
            Self::NoStoreHere => Some("no_store"),
            _ => None,
        }
    }

    /// The response to the client: problem details (RFC 9457), or a page for a developer's browser.
    pub(crate) fn reply(&self, request_id: &str) -> Reply<'static> {
        if let Self::NewestCode(problem) = self {
            return problem.page();
        }
        let status = self.status();
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let problem = format!(
            r#"{{"type":"about:blank","title":{},"status":{status},"detail":{},"request_id":{}{}}}"#,
            text(crate::reply::reason(status)),
            text(&self.to_string()),
            text(request_id),
            match self {
                Self::Records(failure) => failure.details(),
                Self::Sql(failure) => failure.details(),
                Self::BodySchema(mismatch) => format!(",\"pointer\":{}", text(&mismatch.path)),
                Self::InStatement(_) => format!(",\"code\":{}", self.code()),
                Self::Workflow(failure) => failure.trace().to_owned(),
                _ => String::new(),
            },
        );
        let mut reply = Reply::new(status);
        let headers = reply.headers.to_mut();
        headers.push_known("content-type", "application/problem+json");
        match self {
            Self::MethodNotAllowed { allow } => headers.push_known("allow", allow),
            Self::Range { size } => headers.push_known("content-range", &format!("bytes */{size}")),
            Self::TokenNeeded { .. } | Self::ReleaseTokenNeeded => {
                headers.push_known("www-authenticate", "Bearer");
            }
            Self::Auth(failure) => {
                for challenge in failure.challenges() {
                    headers.push_known("www-authenticate", challenge);
                }
                if let AuthFailure::Login(redirect) = &**failure {
                    put_redirect(headers, redirect);
                }
            }
            Self::WrongToken { .. } => headers.push_known("www-authenticate", WRONG_TOKEN),
            Self::RateLimited { left } => left.put(headers),
            Self::Workflow(WorkflowFailure::NoCredentials | WorkflowFailure::WrongCredentials) => {
                headers.push_known("www-authenticate", CLIENTS);
            }
            Self::Records(failure) => match *failure.0 {
                RecordsError::Denied {
                    denial: Denial::TokenNeeded,
                    ..
                }
                | RecordsError::RecordDenied {
                    denial: Denial::TokenNeeded,
                    ..
                } => {
                    headers.push_known("www-authenticate", "Bearer");
                }
                RecordsError::Denied {
                    denial: Denial::WrongToken,
                    ..
                }
                | RecordsError::RecordDenied {
                    denial: Denial::WrongToken,
                    ..
                } => {
                    headers.push_known("www-authenticate", WRONG_TOKEN);
                }
                _ => {}
            },
            _ => {}
        }
        if let Some(retry) = self.retry_after() {
            headers.push_known("retry-after", &retry);
        }
        reply.body = crate::reply::Body::Bytes(problem.into());
        reply
    }

    /// Whether the connection must close because the start of the next request is unknown.
    pub(crate) fn ends_connection(&self) -> bool {
        match self {
            Self::Malformed { .. }
            | Self::Version
            | Self::TransferCoding
            | Self::WebSocket
            | Self::Expectation
            | Self::HeadTooLarge { .. }
            | Self::TooManyFields { .. }
            | Self::HeadTimeout { .. }
            | Self::BodyTimeout { .. }
            | Self::BodyTooSlow { .. }
            | Self::BodyTooLarge { .. }
            | Self::MessageTooLarge { .. } => true,
            Self::InBatch { cause, .. } | Self::InStatement(cause) => cause.ends_connection(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_in_the_server_is_logged_and_what_is_wrong_with_a_request_is_not() {
        let fails = Refusal::from(StoreError::Broken);
        assert!(fails.log("r") && fails.in_batch(1).log("r"));
        assert!(!Refusal::from(StoreError::ReadOnly).log("r"));
        assert!(!Refusal::DeadlinePassed.log("r"));
    }
}
