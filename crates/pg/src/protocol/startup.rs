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
use crate::error::PgError;

/// Who connects to what.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) user: String,
    pub(crate) password: Option<String>,
    pub(crate) database: String,
    pub(crate) application: String,
}

/// What the server has told at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Started {
    /// Names this connection in requests to cancel.
    pub(crate) process_id: i32,
    pub(crate) secret_key: i32,
}

/// A connection that is being started.
pub(crate) struct Startup {
    login: Login,
    scram: Option<ScramSha256>,
    started: Started,
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
    pub(crate) fn begin(login: Login, out: &mut BytesMut) -> Result<Self, PgError> {
        let names = [
            ("user", login.user.as_str()),
            ("database", &login.database),
            ("application_name", &login.application),
        ];
        frontend::startup_message(names.into_iter().chain(SETTINGS), out)?;
        Ok(Self {
            login,
            scram: None,
            started: Started::default(),
        })
    }

    /// Takes what the server has sent, puts what is to be sent into `out`; the result once the server is ready.
    pub(crate) fn receive(
        &mut self,
        received: &mut BytesMut,
        out: &mut BytesMut,
    ) -> Result<Option<Started>, PgError> {
        while let Some(message) = Message::parse(received)? {
            match message {
                Message::AuthenticationOk | Message::ParameterStatus(_) | Message::NoticeResponse(_) => {}
                Message::AuthenticationCleartextPassword => {
                    frontend::password_message(self.password()?, out)?
                }
                Message::AuthenticationMd5Password(body) => {
                    let hash = md5_hash(self.login.user.as_bytes(), self.password()?, body.salt());
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
                Message::BackendKeyData(body) => {
                    self.started = Started {
                        process_id: body.process_id(),
                        secret_key: body.secret_key(),
                    };
                }
                Message::ErrorResponse(body) => {
                    return Err(PgError::Server(Box::new(server_error(body.fields())?)));
                }
                Message::ReadyForQuery(_) => return Ok(Some(self.started)),
                _ => return Err(protocol("a message that has no place at the start")),
            }
        }
        Ok(None)
    }

    fn password(&self) -> Result<&[u8], PgError> {
        match &self.login.password {
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
