//! A server that speaks HTTP/2, and does to a request what its path says.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use forebay_load::{
    plan::{Lane, Link},
    request::{Message, Parts, Requests},
    target::Address,
};
use h2::{
    Reason, RecvStream, SendStream,
    server::{Builder, SendResponse},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::Notify,
};

use crate::tls_peer::{body, body_byte, get};

/// How the server differs from one by the book.
#[derive(Clone, Debug, Default)]
pub(crate) struct Manner {
    /// The windows for bodies of requests.
    pub(crate) window: Option<u32>,
    /// Most streams at once.
    pub(crate) streams: Option<u32>,
    /// It goes away after so many requests of a connection.
    pub(crate) goes_after: Option<u64>,
    /// It goes away at once, and not when all is answered.
    pub(crate) abruptly: bool,
    /// It speaks TLS.
    pub(crate) tls: Option<Arc<rustls::ServerConfig>>,
}

/// What the server has seen.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
    /// Bytes of requests' bodies.
    pub(crate) body_bytes: AtomicU64,
    /// Answered to their end.
    pub(crate) answered: AtomicU64,
    pub(crate) resets: AtomicU64,
    under_way: AtomicU64,
    /// The most requests that were under way at once, on all connections.
    pub(crate) most: AtomicU64,
}

impl Seen {
    pub(crate) fn get(count: &AtomicU64) -> u64 {
        count.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Arc<Seen>,
    stop: Arc<Notify>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, stop) = (Arc::new(Seen::default()), Arc::new(Notify::new()));
        let (counted, stopped) = (seen.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(listener, manner, counted) => {}
                    () = stopped.notified() => {}
                }
            });
        });
        Self {
            address,
            seen,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn lane(&self, requests: Requests) -> Lane {
        let mut lane = Lane::new(Address::Tcp(self.address), requests);
        lane.link = Link {
            http2: true,
            ..Link::default()
        };
        lane
    }

    pub(crate) fn get(&self, path: &str) -> Lane {
        self.lane(Requests::Same(message(path)))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || std::thread::panicking(),
                "the server of the test has panicked"
            );
        }
    }
}

pub(crate) fn message(path: &str) -> Message {
    let parts = Parts {
        path_and_query: path.into(),
        ..get()
    };
    parts.message().unwrap()
}

async fn accept(listener: TcpListener, manner: Manner, seen: Arc<Seen>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        socket.set_nodelay(true).unwrap();
        seen.connections.fetch_add(1, Ordering::Relaxed);
        tokio::spawn(secure(socket, manner.clone(), seen.clone()));
    }
}

async fn secure(socket: TcpStream, manner: Manner, seen: Arc<Seen>) {
    match manner.tls.clone() {
        None => serve(socket, manner, seen).await,
        Some(config) => {
            if let Ok(stream) = tokio_rustls::TlsAcceptor::from(config).accept(socket).await {
                serve(stream, manner, seen).await;
            }
        }
    }
}

async fn serve(socket: impl AsyncRead + AsyncWrite + Unpin, manner: Manner, seen: Arc<Seen>) {
    let mut builder = Builder::new();
    if let Some(window) = manner.window {
        builder.initial_window_size(window);
    }
    if let Some(streams) = manner.streams {
        builder.max_concurrent_streams(streams);
    }
    let Ok(mut connection) = builder.handshake::<_, Bytes>(socket).await else {
        return;
    };
    let cut = Arc::new(Notify::new());
    let mut count = 0;
    loop {
        let accepted = tokio::select! {
            accepted = connection.accept() => accepted,
            // The socket closes with what holds it.
            () = cut.notified() => return,
        };
        let Some(Ok((request, respond))) = accepted else {
            return;
        };
        count += 1;
        tokio::spawn(answer(request, respond, seen.clone(), cut.clone()));
        if manner.goes_after == Some(count) {
            if manner.abruptly {
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            } else {
                connection.graceful_shutdown();
            }
        }
    }
}

async fn answer(
    request: http::Request<RecvStream>,
    respond: SendResponse<Bytes>,
    seen: Arc<Seen>,
    cut: Arc<Notify>,
) {
    seen.requests.fetch_add(1, Ordering::Relaxed);
    let now = seen.under_way.fetch_add(1, Ordering::Relaxed) + 1;
    seen.most.fetch_max(now, Ordering::Relaxed);
    act(request, respond, &seen, &cut).await;
    seen.under_way.fetch_sub(1, Ordering::Relaxed);
}

async fn act(
    request: http::Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    seen: &Seen,
    cut: &Notify,
) {
    let path = request.uri().path().to_owned();
    let cookies = request.headers().get_all("cookie").iter();
    let cookies: Vec<_> = cookies
        .map(|cookie| cookie.to_str().unwrap().to_owned())
        .collect();
    let mut upload = request.into_body();
    let mut at = 0;
    while let Some(part) = upload.data().await {
        let Ok(part) = part else {
            return;
        };
        assert!(
            part.iter()
                .enumerate()
                .all(|(i, byte)| *byte == body_byte(at + i)),
            "the body came as it was sent"
        );
        at += part.len();
        upload.flow_control().release_capacity(part.len()).unwrap();
    }
    seen.body_bytes.fetch_add(at as u64, Ordering::Relaxed);
    let (verb, number) = path.trim_start_matches('/').split_once('/').unwrap();
    let number: usize = number.parse().unwrap();
    let head = http::Response::builder();
    let sent = match verb {
        "bytes" => {
            let head = head.header("content-length", number).body(()).unwrap();
            send(respond.send_response(head, number == 0), number).await
        }
        "slow" => {
            let given_up = std::future::poll_fn(|context| respond.poll_reset(context));
            let delay = Duration::from_millis(number as u64);
            if tokio::time::timeout(delay, given_up).await.is_ok() {
                seen.resets.fetch_add(1, Ordering::Relaxed);
                false
            } else {
                let head = head.body(()).unwrap();
                send(respond.send_response(head, false), 5).await
            }
        }
        "field" => {
            let head = head.header("x-long", "x".repeat(number)).body(()).unwrap();
            respond.send_response(head, true).is_ok()
        }
        "to" => {
            let location = format!("/bytes/{number}");
            let head = head.status(302).header("location", location).body(()).unwrap();
            respond.send_response(head, true).is_ok()
        }
        // A number for the next visit, which `own` wants to see again.
        "visit" => {
            let head = head
                .header("x-next", number + 1)
                .header("set-cookie", format!("next={}", number + 1));
            respond.send_response(head.body(()).unwrap(), true).is_ok()
        }
        "own" => {
            let is_known = cookies == [format!("next={number}")];
            let head = head.status(if is_known { 200 } else { 403 }).body(()).unwrap();
            respond.send_response(head, true).is_ok()
        }
        "reset" => {
            respond.send_reset(Reason::from(number as u32));
            seen.resets.fetch_add(1, Ordering::Relaxed);
            false
        }
        // So many bytes of twice as many, and then a reset or the end of the connection.
        "torn" | "cut" => {
            let head = head.header("content-length", number * 2).body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data(body(number).into(), false).unwrap();
            tokio::task::yield_now().await;
            if verb == "torn" {
                stream.send_reset(Reason::INTERNAL_ERROR);
                seen.resets.fetch_add(1, Ordering::Relaxed);
            } else {
                cut.notify_one();
            }
            false
        }
        // The length is not the one that was promised.
        "lie" => {
            let head = head.header("content-length", number + 1).body(()).unwrap();
            send(respond.send_response(head, false), number).await
        }
        "stop" => {
            let head = head.header("content-length", number + 1).body(()).unwrap();
            let mut stream = respond.send_response(head, false).unwrap();
            stream.send_data(Bytes::from_static(b"x"), false).unwrap();
            std::future::poll_fn(|context| stream.poll_reset(context))
                .await
                .unwrap();
            seen.resets.fetch_add(1, Ordering::Relaxed);
            false
        }
        "hang" => {
            std::future::poll_fn(|context| respond.poll_reset(context))
                .await
                .unwrap();
            seen.resets.fetch_add(1, Ordering::Relaxed);
            false
        }
        other => panic!("the test has no path /{other}"),
    };
    seen.answered.fetch_add(u64::from(sent), Ordering::Relaxed);
}

/// Sends a body of such a length as the client's windows allow.
async fn send(stream: Result<SendStream<Bytes>, h2::Error>, length: usize) -> bool {
    let Ok(mut stream) = stream else {
        return false;
    };
    let mut left = Bytes::from(body(length));
    while !left.is_empty() {
        stream.reserve_capacity(left.len());
        let Some(Ok(capacity)) = std::future::poll_fn(|context| stream.poll_capacity(context)).await else {
            return false;
        };
        let part = left.split_to(capacity.min(left.len()));
        if stream.send_data(part, left.is_empty()).is_err() {
            return false;
        }
    }
    true
}
