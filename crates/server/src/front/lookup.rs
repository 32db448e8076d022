//! Where a request leads, before anything of its body is read; the same for every protocol.

use std::{
    borrow::Cow,
    cell::{OnceCell, RefCell},
    pin::pin,
    ptr,
    rc::Rc,
    sync::{Arc, Once},
    time::{Duration, Instant},
};

use super::{
    Client, Head, Thread,
    connection::{Remote, Transport},
    forwarded::forwarded,
};
use crate::{
    app::App,
    auth::User,
    failure::Refusal,
    logging::Access,
    policy::admit,
    reply::{Body, Delimiting, Fields, HeaderLines, Reply},
    route::Route,
    target::{Cors, End, Request, Upstream, Via},
    traces::Traced,
};

use forebay_router::{Found, Outcome, Template};
use forebay_trace::Trace;

/// Below it are the proofs that an authority asks for.
const CHALLENGE_PATH: &str = "/.well-known/acme-challenge/";
/// Longest request id accepted from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Where a request leads.
#[derive(Debug)]
enum Lookup<'r, 'p> {
    /// To a route's target.
    Route(Found<'r, 'p, Route>),
    /// To no target.
    Unrouted(Unrouted<'r>),
}

/// A request that is answered without a target.
#[derive(Debug)]
pub(super) struct Unrouted<'r> {
    answer: Result<Reply<'static>, Refusal>,
    /// The route that it is about, if there is one.
    pub(super) route: Option<&'r Route>,
    /// Whether everybody is answered. Otherwise the policies of the route, or of the server, decide that.
    is_public: bool,
}

impl Unrouted<'_> {
    pub(super) fn public(answer: Result<Reply<'static>, Refusal>) -> Self {
        Self {
            answer,
            route: None,
            is_public: true,
        }
    }

    fn guarded(answer: Result<Reply<'static>, Refusal>) -> Self {
        Self {
            is_public: false,
            ..Self::public(answer)
        }
    }
}

impl From<Refusal> for Lookup<'_, '_> {
    fn from(refusal: Refusal) -> Self {
        Self::Unrouted(Unrouted::guarded(Err(refusal)))
    }
}

impl<'r, 'p> Lookup<'r, 'p> {
    /// Looks a request up. `tls_port` is where a request without TLS is sent, if that is to happen.
    fn of(app: &'r App, head: &'p Head, id: &str, tls_port: Option<u16>) -> Self {
        if app.has_http_challenges
            && let Some(token) = head.path().strip_prefix(CHALLENGE_PATH)
        {
            return proof(app, token);
        }
        if let Some(port) = tls_port {
            return redirected(head, port);
        }
        Self::routed(app, head, id)
    }

    /// Looks a request up among the routes.
    fn routed(app: &'r App, head: &'p Head, id: &str) -> Self {
        if let Some(lookup) = preflight(app, head) {
            return lookup;
        }
        match app.router.find(head.method(), head.host(), head.path()) {
            Outcome::Found(found) if head.wants_websocket && !found.target.target.takes_upgrades() => {
                log_websocket(head, id);
                Refusal::WebSocket.into()
            }
            Outcome::Found(found) => Self::Route(found),
            Outcome::Options { allow } => {
                let mut headers = HeaderLines::default();
                headers.push_known("allow", &allow);
                Self::Unrouted(Unrouted::guarded(Ok(no_content(headers))))
            }
            Outcome::MethodNotAllowed { allow } => Refusal::MethodNotAllowed { allow }.into(),
            Outcome::BadPath => {
                let what = "the path is not percent-encoded UTF-8 without `..`";
                Refusal::Malformed { what }.into()
            }
            Outcome::NotFound => Refusal::NotFound.into(),
        }
    }
}

/// The response to an authority that looks whether this server has a name (RFC 8555, 8.3).
fn proof<'r, 'p>(app: &App, token: &str) -> Lookup<'r, 'p> {
    let Some(key_authorization) = app.challenges.key_authorization(token) else {
        return Refusal::NotFound.into();
    };
    let mut reply = Reply::new(200);
    reply
        .headers
        .to_mut()
        .push_known("content-type", "application/octet-stream");
    reply.body = Body::Bytes(key_authorization.into());
    Lookup::Unrouted(Unrouted::public(Ok(reply)))
}

/// The response that sends a client to the same address with TLS.
fn redirected<'r, 'p>(head: &Head, port: u16) -> Lookup<'r, 'p> {
    let port = match port {
        443 => String::new(),
        port => format!(":{port}"),
    };
    let query = match head.query() {
        [] => String::new(),
        query => format!("?{}", String::from_utf8_lossy(query)),
    };
    let location = format!("https://{}{port}{}{query}", host_name(head.host()), head.path());
    let mut reply = Reply::new(308);
    let location = reply.headers.to_mut().push(b"location", location.as_bytes());
    if head.host().is_empty() || location.is_err() {
        let what = "it names no host to which it could be sent with TLS";
        return Refusal::Malformed { what }.into();
    }
    Lookup::Unrouted(Unrouted::public(Ok(reply)))
}

/// A host without its port.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        // In an IPv6 address, what follows the last colon is a port only behind its bracket.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

fn log_websocket(head: &Head, id: &str) {
    static LOGGED: Once = Once::new();
    LOGGED.call_once(|| {
        tracing::warn!(
            target: "forebay::front",
            request_id = id,
            path = head.path(),
            "a client asks for a WebSocket where the route has none: it gets 501, as all who ask elsewhere do from now on"
        );
    });
}

fn no_content(headers: HeaderLines) -> Reply<'static> {
    let mut reply = Reply::new(204);
    reply.headers = Cow::Owned(headers);
    reply
}

/// The permissions of the route that a preflight request is about, or the rewrite that leads there.
fn preflight<'r, 'p>(app: &'r App, head: &'p Head) -> Option<Lookup<'r, 'p>> {
    let method = Cors::preflight(head)?;
    match app.router.find(method, head.host(), head.path()) {
        Outcome::Found(found) if found.target.target.rewrite().is_some() => Some(Lookup::Route(found)),
        Outcome::Found(found) => {
            let permission = found.target.cors.as_ref()?.permission(method);
            Some(Lookup::Unrouted(Unrouted {
                route: Some(found.target),
                ..Unrouted::public(Ok(no_content(permission)))
            }))
        }
        _ => None,
    }
}

/// The client's request id if it is safe in a header and a log line; otherwise a new one.
pub(super) fn request_id<'a>(head: &'a Head, generated: &'a [u8; 16]) -> &'a str {
    let usable =
        |id: &&[u8]| (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.iter().all(u8::is_ascii_graphic);
    let id = head.field("x-request-id").filter(usable).unwrap_or(generated);
    std::str::from_utf8(id).expect("graphic ASCII is UTF-8")
}

/// A request on its way to a target, and who sent it.
pub(super) struct Arrival<'a> {
    pub(super) app: &'a Arc<App>,
    pub(super) thread: &'a Rc<Thread>,
    pub(super) head: &'a Head,
    pub(super) id: &'a str,
    /// The address of the client, which may be behind a proxy.
    pub(super) peer: Rc<str>,
    port: u16,
    pub(super) at: Instant,
    remote: &'a Remote,
    /// Whether the client speaks TLS, with this server or with a proxy.
    pub(super) is_secure: bool,
    /// Where the request is sent because it came without TLS.
    tls_port: Option<u16>,
    /// The identity of the client, if its route asks for authentication.
    identity: OnceCell<User>,
    /// The server that answered it, if another one did.
    upstream: RefCell<Option<Upstream>>,
    /// Set if the request is traced.
    trace: OnceCell<Trace>,
    rewritten: OnceCell<Box<Rewritten<'a>>>,
}

/// Sends the response to one request in the way of its protocol.
pub(super) trait Responder: Client {
    /// Whether the connection goes on after the response, in the protocol's terms.
    type Next;

    fn sent(&mut self) -> &mut Sent;

    /// Sends a response, or the refusal in its place.
    async fn finish(
        &mut self,
        arrival: &Arrival<'_>,
        answered: Result<Reply<'_>, End>,
        route: Option<&Route>,
    ) -> Self::Next;

    /// Ends a trace once the response has been written.
    fn trace_written(&mut self, traced: Traced);
}

/// Progress of the response to a request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    /// 0 until the head is written.
    pub(super) status: u16,
    /// Body bytes that the kernel has accepted, or that are queued behind other responses.
    pub(super) bytes: u64,
    /// When the response was written, if the connection was waited for after that.
    pub(super) at: Option<Instant>,
    /// When the target had produced its response; only set for traced requests.
    pub(super) answered: Option<Instant>,
}

/// A request as a route with `rewrite` has sent it on.
#[derive(Debug)]
struct Rewritten<'a> {
    head: Head,
    via: &'a Route,
}

impl<'a> Arrival<'a> {
    pub(super) fn new(
        app: &'a Arc<App>,
        thread: &'a Rc<Thread>,
        head: &'a Head,
        id: &'a str,
        remote: &'a Remote,
        at: Instant,
    ) -> Self {
        let server = &app.config.server;
        let (peer, transport) = (&remote.address, remote.transport);
        let said = forwarded(&server.trusted_proxies, server.forwarded, peer, head);
        let is_tls = said.as_ref().and_then(|said| said.is_tls);
        let is_plain = !is_tls.unwrap_or(transport != Transport::Plain);
        // A proxy that says so has an address of its own with TLS.
        let tls_port = match (is_tls, thread.shared.tls_port) {
            (None, Some(port)) => port,
            _ => 443,
        };
        let client = said.and_then(|said| said.client);
        let is_redirected = server.https_only && is_plain && head.path() != "*";
        Self {
            app,
            thread,
            head,
            id,
            // An address that a proxy has forwarded has no port.
            port: if client.is_some() { 0 } else { remote.port },
            peer: client.map_or_else(|| Rc::clone(peer), |client| client.to_string().into()),
            at,
            is_secure: is_tls.unwrap_or(matches!(transport, Transport::Tls(_))),
            remote,
            tls_port: is_redirected.then_some(tls_port),
            identity: OnceCell::new(),
            upstream: RefCell::default(),
            rewritten: OnceCell::new(),
            trace: OnceCell::new(),
        }
    }

    /// Where it leads.
    fn look_up<'s>(&'s self) -> Lookup<'a, 's> {
        match Lookup::of(self.app, self.head, self.id, self.tls_port) {
            Lookup::Route(found) => match found.target.target.rewrite() {
                Some(template) => self.rewrite(&found, template),
                None => Lookup::Route(found),
            },
            lookup @ Lookup::Unrouted(_) => lookup,
        }
    }

    /// Where a request leads that a route sends on.
    fn rewrite<'s>(&'s self, found: &Found<'a, 's, Route>, template: &Template) -> Lookup<'a, 's> {
        let address = template.expand(&found.params, found.rest, self.head.query());
        let (path, query) = address.split_once('?').unwrap_or((&address, ""));
        let rewritten = self.rewritten.get_or_init(|| {
            Box::new(Rewritten {
                head: self.head.with_target(path, query),
                via: found.target,
            })
        });
        let mut lookup = Lookup::routed(self.app, &rewritten.head, self.id);
        if let Lookup::Unrouted(unrouted) = &mut lookup {
            unrouted.route.get_or_insert(found.target);
        }
        lookup
    }

    /// Answers the request by the means of its protocol. Also returns the route that it was for, if there is one.
    pub(super) async fn answer<R: Responder>(&self, responder: &mut R) -> (R::Next, Option<&'a Route>) {
        let found = match self.look_up() {
            Lookup::Route(found) => found,
            Lookup::Unrouted(unrouted) => {
                let route = unrouted.route;
                let answered = self.answer_unrouted(unrouted, responder).await;
                return (responder.finish(self, answered, route).await, route);
            }
        };
        let request = self.request(&found);
        let route = found.target;
        let (traced, trace) = self.trace(&request, route).unzip();
        let next = {
            let answering = pin!(async {
                let answered = route.answer(&request, responder).await;
                if forebay_trace::current().is_some() {
                    responder.sent().answered = Some(Instant::now());
                }
                responder.finish(self, answered, Some(route)).await
            });
            forebay_trace::within(trace, answering).await
        };
        if let Some(mut traced) = traced {
            let sent = *responder.sent();
            traced.answered(sent.answered, sent.status, sent.bytes);
            responder.trace_written(traced);
        }
        (next, Some(route))
    }

    /// Answers a request that no target answers.
    async fn answer_unrouted(
        &self,
        unrouted: Unrouted<'a>,
        client: &mut dyn Client,
    ) -> Result<Reply<'static>, End> {
        let policies = unrouted.route.map_or(&self.app.policies, |route| &route.policies);
        if unrouted.is_public {
            // A preflight request has a route. It comes without credentials, and uses up no rate limit of the request that it is about.
            if unrouted.route.is_some() {
                policies.check_address(&self.peer)?;
            }
        } else {
            let request = self.request_for("", &[], None, self.app.config.server.deadline);
            admit(&[policies], None, &request, client).await?;
        }
        Ok(unrouted.answer?)
    }

    /// The response to a request that is refused.
    pub(super) fn refused(&self, refusal: &Refusal, route: Option<&Route>) -> Reply<'static> {
        let Some(route) = route else {
            return self.app.policies.refused(refusal, self.head, self.id);
        };
        let via = self.via().filter(|via| !ptr::eq(via.route, route));
        route.refused(via, refusal, self.head, self.id)
    }

    /// Has the fields written that the server adds to those of a response.
    pub(super) fn with_fields<T>(
        &self,
        route: Option<&Route>,
        now: Instant,
        delimiting: Delimiting,
        write: impl FnOnce(&Fields<'_>) -> T,
    ) -> T {
        let cors = route.and_then(|route| route.cors.as_ref());
        let cors_headers = cors.map(|cors| cors.headers(self.head)).unwrap_or_default();
        let route_headers = route.map_or(&self.app.policies.headers, |route| &route.headers);
        write(&Fields {
            date: &self.thread.date(now),
            request_id: self.id.as_bytes(),
            transport_headers: if self.is_secure { &self.app.hsts } else { &[] },
            route_headers: route_headers.as_bytes(),
            cors_headers: cors_headers.as_bytes(),
            delimiting,
        })
    }

    /// The route that has rewritten the request, if one has.
    fn via(&self) -> Option<Via<'_>> {
        let rewritten = self.rewritten.get()?;
        Some(Via {
            route: rewritten.via,
            head: self.head,
        })
    }

    /// The request for the target of a route.
    fn request<'b, 's: 'b>(&'s self, found: &'b Found<'a, 's, Route>) -> Request<'b> {
        self.request_for(found.pattern, &found.params, found.rest, found.target.deadline)
    }

    fn request_for<'b>(
        &'b self,
        pattern: &'b str,
        params: &'b [(&'b str, Cow<'b, str>)],
        rest: Option<&'b str>,
        deadline: Duration,
    ) -> Request<'b> {
        let rewritten = self.rewritten.get();
        Request {
            head: rewritten.map_or(self.head, |rewritten| &rewritten.head),
            via: self.via(),
            id: self.id,
            pattern,
            params,
            rest,
            peer: &self.peer,
            port: self.port,
            is_secure: self.is_secure,
            certificate: self.remote.certificate.as_ref(),
            identity: &self.identity,
            upstream: &self.upstream,
            thread: self.thread,
            app: self.app,
            arrived: self.at,
            deadline: self.at + deadline,
        }
    }

    /// Starts tracing the request if somebody wants that.
    fn trace(&self, request: &Request<'_>, route: &Route) -> Option<(Traced, Trace)> {
        let traced = self.thread.shared.traces.begin(request, route)?;
        let trace = traced.trace().clone();
        let _ = self.trace.set(trace.clone());
        Some((traced, trace))
    }

    /// Counts a finished request and writes it to the access log, if there is one.
    pub(super) fn account(&self, route: Option<&Route>, status: u16, bytes: u64, duration: Duration) {
        let counts = route.map_or(&self.app.unrouted, |route| &route.counts);
        counts.of_thread(self.thread.index).count(status, duration);
        if let Some(log) = &self.app.access_log {
            let head = self.head;
            let upstream = self.upstream.borrow();
            log.write(&Access {
                peer: &self.peer,
                user: self.identity.get().map_or("", |identity| identity.subject()),
                method: head.method(),
                path: head.path(),
                query: match route {
                    Some(route) if route.target.has_secret_query() => b"",
                    _ => head.query(),
                },
                version: head.version,
                tls: match self.remote.transport {
                    Transport::Tls(version) => version,
                    Transport::Plain | Transport::Unix => "",
                },
                referer: head.field("referer").unwrap_or_default(),
                user_agent: head.field("user-agent").unwrap_or_default(),
                status,
                bytes,
                duration,
                request_id: self.id,
                route: route.map(|route| route.counts.name()),
                pool: route.and_then(|route| route.target.pool_name()),
                trace: self.trace.get().and_then(Trace::ids),
                upstream: upstream.as_ref().map(|used| (used.server.name(), used.duration)),
            });
        }
    }
}
