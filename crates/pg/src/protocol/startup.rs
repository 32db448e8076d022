//! The beginning of a connection, until the server is ready for the first statement.

use bytes::BytesMut;
use fallible_iterator::FallibleIterator as _;
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    },
    message::{backend::Message, frontend},
};

use super::conversation::server_error;
use crate::{PgError, settings::ServerUrl};

/// A connection that is being started.
pub(crate) struct Startup {
    user: String,
    password: Option<String>,
    scram: Option<ScramSha256>,
}

/// How values are written: all drivers and all connections get the same text for the same value.
const SETTINGS: [(&str, &str); 5] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO, MDY"),
    ("IntervalStyle", "iso_8601"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
];

impl Startup {
    /// Begins: `out` is to be sent.
    pub(crate) fn begin(server: &ServerUrl, out: &mut BytesMut) -> Result<Self, PgError> {
        let names = [
            ("user", server.user.as_str()),
            ("database", &server.database),
            ("application_name", &server.application),
        ];
        frontend::startup_message(names.into_iter().chain(SETTINGS), out)?;
        Ok(Self {
            user: server.user.clone(),
            password: server.password.clone(),
            scram: None,
        })
    }

    /// Takes what the server has sent, puts what is to be sent into `out`; true once the server is ready.
    pub(crate) fn receive(&mut self, received: &mut BytesMut, out: &mut BytesMut) -> Result<bool, PgError> {
        while let Some(message) = Message::parse(received)? {
            match message {
                Message::AuthenticationOk
                | Message::BackendKeyData(_)
                | Message::ParameterStatus(_)
                | Message::NoticeResponse(_) => {}
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(self.password()?, out)?;
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(self.user.as_bytes(), self.password()?, body.salt());
                    frontend::password_message(hash.as_bytes(), out)?;
                }
                Message::AuthenticationSasl(body) => {
                    let mechanisms: Vec<String> =
                        body.mechanisms().map(|name| Ok(name.to_owned())).collect()?;
                    if !mechanisms.iter().any(|name| name == SCRAM_SHA_256) {
                        return Err(unknown(&mechanisms.join(", ")));
                    }
                    let scram = ScramSha256::new(self.password()?, ChannelBinding::unsupported());
                    frontend::sasl_initial_response(SCRAM_SHA_256, scram.message(), out)?;
                    self.scram = Some(scram);
                }
                Message::AuthenticationSaslContinue(body) => {
                    let scram = self
                        .scram
                        .as_mut()
                        .ok_or_else(|| protocol("SASL that was not begun"))?;
                    scram.update(body.data())?;
                    frontend::sasl_response(scram.message(), out)?;
                }
                Message::AuthenticationSaslFinal(body) => {
                    let scram = self
                        .scram
                        .as_mut()
                        .ok_or_else(|| protocol("SASL that was not begun"))?;
                    scram.finish(body.data())?;
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
