//! Startup of a connection, until the server is ready for the first statement.

use std::time::Duration;

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, SCRAM_SHA_256_PLUS, ScramSha256},
    },
    message::{backend::Message, frontend},
};

use super::{
    conversation::server_error,
    messages::{foreign, next},
};
use crate::{PgError, settings::ServerUrl};

/// Identifies a connection in a cancellation request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CancelKey {
    pub(super) process_id: i32,
    pub(super) secret_key: i32,
}

/// A connection being started.
pub(crate) struct Startup {
    /// Channel binding data, which ties the password to the server's certificate (RFC 5929, `tls-server-end-point`).
    end_point: Option<Vec<u8>>,
    key: Option<CancelKey>,
    user: String,
    password: Option<String>,
    scram: Option<ScramSha256>,
}

/// Most hash iterations of a password: a server that requests more would block this thread for seconds. PostgreSQL's
/// default is 4096.
const ITERATIONS_MAX: u64 = 1_000_000;

/// The server's settings are 32-bit integers.
const TIMEOUT_MS_MAX: u128 = i32::MAX as u128;

/// Formats of values: with all drivers and connections the same value has the same text.
const SETTINGS: [(&str, &str); 5] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
];

impl Startup {
    /// Begins the startup; the messages in `out` must be sent. The server itself ends statements that take longer than
    /// `statement_timeout`.
    pub(crate) fn begin(
        server: &ServerUrl,
        statement_timeout: Option<Duration>,
        end_point: Option<Vec<u8>>,
        out: &mut BytesMut,
    ) -> Result<Self, PgError> {
        let timeout = statement_timeout.map(|limit| limit.as_millis().min(TIMEOUT_MS_MAX).to_string());
        let names = [
            ("user", server.user.as_str()),
            ("database", &server.database),
            ("application_name", &server.application),
        ];
        let timeout = timeout.as_deref().map(|limit| ("statement_timeout", limit));
        frontend::startup_message(names.into_iter().chain(SETTINGS).chain(timeout), out).map_err(foreign)?;
        Ok(Self {
            end_point,
            key: None,
            user: server.user.clone(),
            password: server.password.clone(),
            scram: None,
        })
    }

    /// Key for cancelling the connection's statements, once it is started.
    pub(crate) fn key(&self) -> Option<CancelKey> {
        self.key
    }

    /// Handles received data and appends the replies to `out`; true once the server is ready.
    pub(crate) fn receive(&mut self, received: &mut BytesMut, out: &mut BytesMut) -> Result<bool, PgError> {
        while let Some(message) = next(received)? {
            match message {
                Message::AuthenticationOk | Message::ParameterStatus(_) | Message::NoticeResponse(_) => {}
                Message::BackendKeyData(body) => {
                    self.key = Some(CancelKey {
                        process_id: body.process_id(),
                        secret_key: body.secret_key(),
                    });
                }
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(self.password()?, out).map_err(foreign)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(self.user.as_bytes(), self.password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), out).map_err(foreign)?;
                }
                Message::AuthenticationSasl(body) => {
                    let mechanisms: Vec<String> = body
                        .mechanisms()
                        .map(|name| Ok(name.to_owned()))
                        .collect()
                        .map_err(foreign)?;
                    let offers = |wanted| mechanisms.iter().any(|name| name == wanted);
                    let (mechanism, binding) = match self.end_point.take() {
                        Some(end_point) if offers(SCRAM_SHA_256_PLUS) => (
                            SCRAM_SHA_256_PLUS,
                            ChannelBinding::tls_server_end_point(end_point),
                        ),
                        // Tells a server that supports channel binding that an attacker in between has removed the
                        // offer.
                        Some(_) if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unrequested()),
                        None if offers(SCRAM_SHA_256) => (SCRAM_SHA_256, ChannelBinding::unsupported()),
                        _ => return Err(unknown(&mechanisms.join(", "))),
                    };
                    let scram = ScramSha256::new(self.password()?, binding);
                    frontend::sasl_initial_response(mechanism, scram.message(), out).map_err(foreign)?;
                    self.scram = Some(scram);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = self
                        .scram
                        .as_mut()
                        .ok_or_else(|| protocol("SASL that was not begun"))?;
                    if iterations(body.data()) > ITERATIONS_MAX {
                        return Err(protocol("too many iterations for a password"));
                    }
                    scram.update(body.data()).map_err(foreign)?;
                    frontend::sasl_response(scram.message(), out).map_err(foreign)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    let scram = self
                        .scram
                        .as_mut()
                        .ok_or_else(|| protocol("SASL that was not begun"))?;
                    scram.finish(body.data()).map_err(foreign)?;
                }
                Message::AuthenticationKerberosV5 => return Err(unknown("Kerberos")),
                Message::AuthenticationGss | Message::AuthenticationSspi => {
                    return Err(unknown("GSSAPI or SSPI"));
                }
                Message::ErrorResponse(body) => {
                    return Err(PgError::Server(Box::new(server_error(body.fields())?)));
                }
                Message::ReadyForQuery(_) => return Ok(true),
                _ => return Err(protocol("a message that has no place at the start")),
            }
        }
        Ok(false)
    }

    fn password(&self) -> Result<&[u8], PgError> {
        match &self.password {
            Some(password) => Ok(password.as_bytes()),
            None => Err(PgError::Authentication {
                method: "a password, and the URL has none".into(),
            }),
        }
    }
}

/// Number of hash iterations that the server requests (RFC 5802, 5.1).
fn iterations(challenge: &[u8]) -> u64 {
    let Ok(challenge) = str::from_utf8(challenge) else {
        return 0;
    };
    challenge
        .split(',')
        .find_map(|attribute| attribute.strip_prefix("i="))
        .map_or(0, |count| count.parse().unwrap_or(u64::MAX))
}

/// Asks whether the server supports TLS; its reply is one byte for [`wants_tls`].
pub(crate) fn write_tls_request(out: &mut BytesMut) {
    frontend::ssl_request(out);
}

/// Fails unless the server's reply accepts TLS.
pub(crate) fn wants_tls(answer: u8) -> Result<(), PgError> {
    match answer {
        b'S' => Ok(()),
        b'N' => Err(PgError::Tls {
            reason: "the server has no TLS; sslmode=disable connects without".into(),
        }),
        _ => Err(protocol("something else than whether it has TLS")),
    }
}

fn unknown(method: &str) -> PgError {
    PgError::Authentication {
        method: method.into(),
    }
}

fn protocol(reason: &str) -> PgError {
    PgError::Protocol {
        reason: reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::{ITERATIONS_MAX, Startup, iterations, wants_tls};
    use crate::ServerUrl;

    /// The client's reply to a server that offers these SCRAM mechanisms.
    fn answer(end_point: Option<&[u8]>, offered: &[&str]) -> Vec<u8> {
        let server: ServerUrl = "postgres://u:p@h/d".parse().unwrap();
        let mut out = BytesMut::new();
        let end_point = end_point.map(<[u8]>::to_vec);
        let mut startup = Startup::begin(&server, None, end_point, &mut out).unwrap();
        out.clear();
        let mut body = 10_u32.to_be_bytes().to_vec();
        for mechanism in offered {
            body.extend_from_slice(mechanism.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut received = BytesMut::from(&b"R"[..]);
        received.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        received.extend_from_slice(&body);
        assert!(!startup.receive(&mut received, &mut out).unwrap());
        out.to_vec()
    }

    #[test]
    fn a_password_is_bound_to_the_certificate_where_both_sides_can() {
        let both = ["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"];
        let says = |answer: &[u8], part: &str| String::from_utf8_lossy(answer).contains(part);
        let bound = answer(Some(b"hash"), &both);
        assert!(says(&bound, "SCRAM-SHA-256-PLUS") && says(&bound, "p=tls-server-end-point,,"));
        // If the server offers no channel binding, the client reports that it supports it, so that an attacker in
        // between cannot remove the offer unnoticed.
        assert!(says(&answer(Some(b"hash"), &both[1..]), "y,,"));
        assert!(says(&answer(None, &both), "n,,"));
    }

    #[test]
    fn a_password_is_not_hashed_for_seconds() {
        assert_eq!(iterations(b"r=abc,s=eA==,i=4096"), 4096);
        assert!(iterations(b"r=abc,s=eA==,i=4294967295") > ITERATIONS_MAX);
        assert!(iterations(b"r=abc,s=eA==,i=99999999999999999999999") > ITERATIONS_MAX);
        assert_eq!(iterations(b"e=other-error"), 0);
    }

    #[test]
    fn a_server_without_tls_is_refused() {
        assert!(wants_tls(b'S').is_ok());
        let error = wants_tls(b'N').unwrap_err().to_string();
        assert!(error.contains("sslmode=disable"), "{error}");
        assert!(wants_tls(b'E').is_err());
    }
}
