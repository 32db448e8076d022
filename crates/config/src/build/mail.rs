//! `[mail.NAME]`

use forebay_clients::{MailLogin, MailOptions, MailRecipients, MailTls};

use super::Builder;
use crate::fields::Fields;
use crate::{MailServer, Secret};

impl Builder<'_> {
    /// The section's user and password. Either both or neither must be given, and only with an encrypted connection.
    pub(super) fn login<'f>(
        &mut self,
        fields: &'f Fields,
        is_encrypted: bool,
    ) -> (Option<&'f str>, Option<Secret>) {
        if fields.written("user") != fields.written("password") {
            let message = "`user` and `password` are written together, or neither of them";
            self.note(fields.problem("user", message));
        }
        if !is_encrypted && fields.written("user") {
            let message = "a password is sent over connections that are encrypted alone (`tls`)";
            self.note(fields.problem("user", message));
        }
        (fields.opt_text("user"), self.secret(fields, "password"))
    }

    /// Returns `None` after reporting a problem.
    pub(super) fn mail(&mut self, name: &str, fields: &Fields) -> Option<MailServer> {
        self.check_name(name, "mail", fields);
        let (tls, usual_port) = match fields.text("tls") {
            "none" => (MailTls::None, 25),
            "implicit" => (MailTls::Implicit, 465),
            _ => (MailTls::StartTls, 587),
        };
        let host = fields.text("host").to_owned();
        if host.is_empty() || host.contains(|each: char| each.is_whitespace() || each == '/') {
            self.note(fields.problem("host", format!("found {host:?}, expected the name of a server")));
        }
        let (user, password) = self.login(fields, tls != MailTls::None);
        let login = user.zip(password.as_ref());
        let login = login.map(|(user, password)| MailLogin {
            user: user.to_owned(),
            password: password.reveal().to_owned(),
        });
        let mut to = MailRecipients::default();
        for pattern in fields.texts("to") {
            if let Err(error) = to.allow(&pattern.text) {
                let message = format!("{error}; `*@example.org` is all of a domain, and `*` is everybody");
                self.note(fields.problem_at(pattern.line, "to", message));
            }
        }
        let from = match fields.text("from").parse() {
            Ok(from) => from,
            Err(error) => {
                self.note(fields.problem("from", format!("{error}")));
                return None;
            }
        };
        let count = |key| usize::try_from(fields.integer(key)).unwrap_or(usize::MAX);
        let port = fields
            .opt_integer("port")
            .map_or(usual_port, |port| u16::try_from(port).unwrap_or(usual_port));
        let options = MailOptions {
            host,
            port,
            tls,
            login,
            from,
            to,
            connections_max: count("connections_max"),
            send_timeout: fields.duration("send_timeout"),
            message_bytes_max: count("message_bytes_max"),
            recipients_max: count("recipients_max"),
        };
        Some(MailServer { password, options })
    }
}
