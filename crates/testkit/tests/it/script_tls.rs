//! Scripts that fetch over TLS, from a server that the test starts itself.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use forebay_testkit::{Server, Setup};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring::default_provider,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::certificates::{Issuer, for_localhost, issuer};

const FETCHES: &str = r"
export default async (request) => {
  try {
    const answer = await fetch(request.query.get('url'));
    return { status: answer.status, text: await answer.text() };
  } catch (error) {
    return { name: error.name, message: error.message };
  }
};
";

/// A server that gives every request the same response, and presents a certificate for `localhost`.
fn serve(issuer: &Issuer, years: std::ops::Range<i32>) -> SocketAddr {
    let (certificate, key) = for_localhost(issuer, years);
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the versions are known")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .expect("the key is the certificate's");
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it listens");
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let connection = connection.expect("a connection");
            let session = ServerConnection::new(config.clone()).expect("the configuration is right");
            let mut stream = StreamOwned::new(session, connection);
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let mut bytes = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    // A client that does not trust the certificate disconnects.
                    match stream.read(&mut bytes) {
                        Ok(0) | Err(_) => return,
                        Ok(length) => request.extend_from_slice(&bytes[..length]),
                    }
                }
                let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\nconnection: close\r\n\r\nsecret";
                let _ = stream.write_all(answer);
                stream.conn.send_close_notify();
                let _ = stream.flush();
            });
        }
    });
    address
}

fn asked(server: &Server, url: &str) -> String {
    server.get(&format!("/?url={url}")).text().to_owned()
}

#[test]
fn a_script_fetches_over_tls_from_whom_it_trusts_and_may_ask() {
    let trusted = issuer("trusted");
    let right = serve(&trusted, 2020..2100);
    let expired = serve(&trusted, 2000..2001);
    let unknown = serve(&issuer("unknown"), 2020..2100);
    let allowed: Vec<_> = [right, expired, unknown]
        .iter()
        .flat_map(|address| {
            [
                format!("\"localhost:{}\"", address.port()),
                format!("\"{address}\""),
            ]
        })
        .collect();
    let setup = Setup::new(&format!(
        "[script.s]\nhandler = \"s.mjs\"\nallow = {{ fetch = [{}] }}\n[[route]]\npath = \"/\"\nscript = \"s\"\n",
        allowed.join(", ")
    ))
    .file("s.mjs", FETCHES)
    .file("ca.pem", trusted.pem());
    let roots = setup.folder().path().join("ca.pem");
    let server = setup
        .env("SSL_CERT_FILE", roots.to_str().expect("a path of text"))
        .start();
    let url = |host: &str, address: SocketAddr| format!("https://{host}:{}/", address.port());
    assert_eq!(
        asked(&server, &url("localhost", right)),
        r#"{"status":200,"text":"secret"}"#
    );
    for (url, reason) in [
        (url("127.0.0.1", right), "not valid for name"),
        (url("localhost", expired), "expired"),
        (url("localhost", unknown), "UnknownIssuer"),
        ("https://localhost/".to_owned(), "may not fetch from `localhost`"),
    ] {
        let refused = asked(&server, &url);
        assert!(
            refused.contains("\"name\":\"TypeError\"") && refused.contains(reason),
            "{url}: {refused}"
        );
    }
}
