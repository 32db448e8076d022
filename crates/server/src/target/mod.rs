//! Targets of routes: one module for each kind.

mod access;
mod body_stream;
mod durability;
pub mod files;
mod hop;
mod idempotency_key;
mod job;
mod login;
mod media_type;
mod openapi;
mod origin;
pub(crate) mod parameters;
mod pending;
pub(crate) mod pool;
mod post_only;
mod proxy;
pub(crate) mod records;
mod redirect;
pub(crate) mod respond;
mod response_headers;
pub(crate) mod script;
mod snapshot_read;
mod spool;
mod sql;
pub(crate) mod store;
pub(crate) mod tql;
pub(crate) mod websocket;
pub mod workflow;

use std::{
    borrow::Cow,
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Instant,
};

use forebay_auth::Site;
use forebay_tls::ClientCertificate;

use forebay_router::Template;

pub(crate) use self::{
    access::Rules,
    body_stream::{BodyStream, NextPiece, Piece},
    durability::on_disk,
    files::FilesTarget,
    job::JobTarget,
    login::LoginTarget,
    media_type::essence,
    openapi::{OpenApiTarget, Tagged},
    origin::{Cors, Origins},
    pending::wait_for,
    pool::PoolTarget,
    proxy::{ProxyTarget, Upstream},
    records::RecordsTarget,
    redirect::{RedirectTarget, Via, template},
    respond::RespondTarget,
    response_headers::SERVERS_OWN,
    script::ScriptTarget,
    spool::{Bounds, BufferUsage},
    sql::SqlTarget,
    store::StoreTarget,
    tql::TqlTarget,
    workflow::WorkflowTarget,
};
use crate::{
    app::App,
    auth::User,
    failure::Refusal,
    front::{Client, Head, Thread},
    reply::Reply,
};

/// The target of a route.
#[derive(Debug)]
pub(crate) enum Target {
    Respond(RespondTarget),
    Redirect(RedirectTarget),
    /// The path of the route that answers. The lookup of a request follows it once: it is a target only for a request that was rewritten already.
    Rewrite(Template),
    Files(FilesTarget),
    Store(StoreTarget),
    Records(RecordsTarget),
    Tql(TqlTarget),
    Sql(SqlTarget),
    Pool(PoolTarget),
    /// Requests to a pool that are stored first, or the jobs that they are then.
    Job(JobTarget),
    Proxy(ProxyTarget),
    Script(ScriptTarget),
    Workflow(WorkflowTarget),
    OpenApi(OpenApiTarget),
    /// A path that the server answers itself for logins.
    Login(LoginTarget),
}

impl Target {
    /// Answers a request, and reads of its body what it needs.
    pub(crate) async fn answer<'a>(
        &'a self,
        request: &Request<'_>,
        client: &mut dyn Client,
    ) -> Result<Reply<'a>, End> {
        match self {
            Self::Respond(respond) => Ok(respond.reply()),
            Self::Redirect(redirect) => Ok(redirect.reply(request)),
            Self::Rewrite(_) => Err(Refusal::RewrittenTwice.into()),
            Self::Files(files) => Ok(files.reply(request)?),
            Self::Store(store) => store.answer(request, client).await,
            Self::Records(records) => records.answer(request, client).await,
            Self::Tql(tql) => tql.answer(request, client).await,
            Self::Sql(sql) => sql.answer(request, client).await,
            Self::Pool(pool) => pool.answer(request, client).await,
            Self::Job(job) => job.answer(request, client).await,
            Self::Proxy(proxy) => proxy.answer(request, client).await,
            Self::Script(script) => script.answer(request, client).await,
            Self::Workflow(workflow) => workflow.answer(request, client).await,
            Self::OpenApi(openapi) => Ok(openapi.reply(request)?),
            Self::Login(login) => login.answer(request, client).await,
        }
    }

    /// Whether its connections may go over to another protocol (status 101).
    pub(crate) fn takes_upgrades(&self) -> bool {
        match self {
            // As the route does that answers in its place.
            Self::Proxy(_) | Self::Rewrite(_) => true,
            Self::Pool(pool) => pool.takes_upgrades(),
            Self::Store(store) => store.takes_upgrades(),
            _ => false,
        }
    }

    /// Whether queries are not for the log: those of logins have codes of issuers.
    pub(crate) fn has_secret_query(&self) -> bool {
        matches!(self, Self::Login(_))
    }

    /// The path of the route that answers in its place.
    pub(crate) fn rewrite(&self) -> Option<&Template> {
        match self {
            Self::Rewrite(path) => Some(path),
            _ => None,
        }
    }

    /// The pool that handles the route's requests, if its target is one.
    pub(crate) fn pool_name(&self) -> Option<&str> {
        match self {
            Self::Respond(_)
            | Self::Redirect(_)
            | Self::Rewrite(_)
            | Self::Files(_)
            | Self::Store(_)
            | Self::Records(_)
            | Self::Tql(_)
            | Self::Sql(_)
            | Self::Proxy(_)
            | Self::Script(_)
            | Self::Workflow(_)
            | Self::OpenApi(_)
            | Self::Login(_) => None,
            Self::Pool(target) => Some(target.pool().name()),
            Self::Job(target) => Some(target.pool().name()),
        }
    }
}

/// Why a target stops working on a request.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum End {
    /// The client gets an error response.
    Refused(Refusal),
    /// The client has disconnected.
    Gone,
}

impl From<Refusal> for End {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<forebay_workflow::WorkflowFailure> for End {
    fn from(failure: forebay_workflow::WorkflowFailure) -> Self {
        Self::Refused(failure.into())
    }
}

impl From<forebay_upstream::Failure> for End {
    fn from(failure: forebay_upstream::Failure) -> Self {
        Self::Refused(Refusal::Upstream(failure))
    }
}

impl From<forebay_pool::Failure> for End {
    fn from(failure: forebay_pool::Failure) -> Self {
        Self::Refused(failure.into())
    }
}

/// A request as handed to its target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) head: &'a Head,
    pub(crate) id: &'a str,
    pub(crate) pattern: &'a str,
    /// Names and decoded values.
    pub(crate) params: &'a [(&'a str, Cow<'a, str>)],
    /// The route that sent it on to this one, if one did.
    pub(crate) via: Option<Via<'a>>,
    /// The part of the path that the pattern's `*` matched, percent-encoded.
    pub(crate) rest: Option<&'a str>,
    /// The address of the client, without a port; empty for a Unix socket.
    pub(crate) peer: &'a str,
    /// The client's port; 0 if it is not known.
    pub(crate) port: u16,
    /// Whether the client speaks TLS, with this server or with a proxy.
    pub(crate) is_secure: bool,
    /// The certificate of the client, which the handshake with this server has verified.
    pub(crate) certificate: Option<&'a ClientCertificate>,
    /// The identity of the client, once it is authenticated.
    pub(crate) identity: &'a OnceCell<User>,
    /// The server that answered it, if another one did.
    pub(crate) upstream: &'a RefCell<Option<Upstream>>,
    /// The I/O thread that answers it.
    pub(crate) thread: &'a Rc<Thread>,
    /// The routes in force when it arrived.
    pub(crate) app: &'a Arc<App>,
    /// When the head had been read.
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
}

impl Request<'_> {
    /// The address by which the client has reached this server.
    pub(crate) fn site(&self) -> Site<'_> {
        Site {
            is_secure: self.is_secure,
            host: self.head.host(),
        }
    }
}
