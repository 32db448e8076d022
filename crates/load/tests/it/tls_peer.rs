//! TLS servers, correct and faulty, with certificates made for the test.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use forebay_load::{
    Plan, Session,
    engine::{Stretch, Until},
    plan::Lane,
    request::Parts,
    tls::{Options, Tls},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

use forebay_testkit::Folder;

use crate::{
    peer::Peer,
    rig::{self, FOREVER, closed, lane, parts},
};

pub(crate) type Stream = StreamOwned<ServerConnection, TcpStream>;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    pub(crate) folder: Folder,
    pub(crate) ca: PathBuf,
}

/// A certificate and its key.
#[derive(Debug)]
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: KeyPair,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // Authorities of the same name would be mistaken for each other.
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Folder::new();
        folder.write("ca.pem", issuer.pem());
        let ca = folder.path().join("ca.pem");
        Self { issuer, folder, ca }
    }

    pub(crate) fn identity(&self, name: &str, years: std::ops::Range<i32>) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(years.start, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.end, 1, 1);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            key,
        }
    }

    /// A certificate for `localhost` that any client of this authority trusts.
    pub(crate) fn localhost(&self) -> Identity {
        self.identity("localhost", 2020..4000)
    }

    /// Options that trust this authority.
    pub(crate) fn trusted(&self) -> Options {
        Options {
            ca: Some(self.ca.clone()),
            ..Options::default()
        }
    }
}

impl Identity {
    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()))
    }

    pub(crate) fn server(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> ServerConfig {
        ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key())
            .unwrap()
    }
}

/// A peer that speaks TLS; `serve` gets connections whose handshake is complete.
pub(crate) fn tls(config: ServerConfig, serve: impl Fn(&mut Stream) + Send + Sync + 'static) -> Peer {
    let config = Arc::new(config);
    Peer::start(move |mut socket| {
        socket.set_nodelay(true).unwrap();
        let mut connection = ServerConnection::new(config.clone()).unwrap();
        while connection.is_handshaking() {
            if connection.complete_io(&mut socket).is_err() {
                // Keep reading: closing at once would take back the alert that says why.
                let _ = socket.shutdown(std::net::Shutdown::Write);
                let _ = std::io::copy(&mut socket, &mut std::io::sink());
                return;
            }
        }
        serve(&mut StreamOwned::new(connection, socket));
    })
}

pub(crate) fn lane_of(peer: &Peer, tls: Tls, parts: &Parts) -> Lane {
    Lane {
        tls: Some(tls),
        ..lane(peer.address(), parts)
    }
}

/// Reads one request with its body; returns the body's length. `None`: the client has gone.
pub(crate) fn read_request(stream: &mut impl Read) -> Option<usize> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let length = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    assert!(
        body.iter().enumerate().all(|(at, byte)| *byte == body_byte(at)),
        "the body came as it was sent"
    );
    Some(length)
}

/// The bytes of bodies in these tests.
pub(crate) fn body_byte(at: usize) -> u8 {
    (at % 251) as u8
}

pub(crate) fn body(length: usize) -> Vec<u8> {
    (0..length).map(body_byte).collect()
}

/// Answers all requests with a body of this length, counting them.
pub(crate) fn answer_all(
    length: usize,
    served: &Arc<AtomicU64>,
) -> impl Fn(&mut Stream) + Send + Sync + 'static + use<> {
    let served = served.clone();
    let mut answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    answer.extend(body(length));
    move |stream| {
        while read_request(stream).is_some() {
            served.fetch_add(1, Ordering::Relaxed);
            if stream.write_all(&answer).is_err() {
                return;
            }
        }
    }
}

pub(crate) fn get() -> Parts {
    parts("/")
}

pub(crate) fn post(length: usize) -> Parts {
    Parts {
        method: "POST".into(),
        body: body(length),
        ..get()
    }
}

/// A TLS configuration for `localhost`.
pub(crate) fn secure(options: &Options) -> Tls {
    options.load().unwrap().for_host("localhost").unwrap()
}

pub(crate) fn plan(lane: Lane) -> Plan {
    let mut plan = Plan::new(vec![lane]);
    plan.timeout = FOREVER;
    plan.connect_timeout = FOREVER;
    plan
}

/// Runs a plan until the first failure; others may occur at the same moment.
pub(crate) fn run_until_failure(plan: Plan) -> Stretch {
    plan.check(1, false).unwrap();
    let mut session = Session::start(plan).unwrap();
    let stop = session.stopper();
    let mut measured = session.measure(closed(1), Until::passed(FOREVER), &mut |stretch| {
        if stretch.total.failures.total() > 0 {
            stop.store(true, Ordering::Relaxed);
        }
    });
    measured.absorb(&session.finish());
    measured
}

/// Runs a plan once; returns the measurement, late responses included.
pub(crate) fn run(plan: Plan, connections: usize, until: Until) -> Stretch {
    rig::run(plan, closed(connections), until)
}
