//! `[tls.NAME]`, and what `[server]` says about certificates of clients.

use std::path::PathBuf;

use forebay_acme::{Challenge, Settings};
use forebay_tls::{CertificateFiles, ClientCertificates};

use super::Builder;
use crate::config::{
    Certificate, Listen, Server,
    fields::{Fields, Spot},
};

/// Most names of a certificate that is obtained: that of Let's Encrypt.
const DOMAINS_MAX: usize = 100;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn tls(&mut self, name: &str, fields: &Fields, server: &Server) -> Option<Certificate> {
        self.check_name(name, "certificate", fields);
        let Some(acme) = fields.opt_table("acme") else {
            for key in ["cert", "key"].into_iter().filter(|key| !fields.written(key)) {
                let message = "it is required: a certificate has `cert` and `key`, or `acme`";
                self.note(fields.problem(key, message));
            }
            let (cert, key) = (
                self.existing_file(fields, "cert"),
                self.existing_file(fields, "key"),
            );
            return Some(Certificate::Files(CertificateFiles {
                ocsp: self.existing_file(fields, "ocsp"),
                cert: cert?,
                key: key?,
            }));
        };
        for key in ["cert", "key", "ocsp"] {
            if fields.written(key) {
                self.note(fields.problem(key, "it is not for a certificate that `acme` obtains"));
            }
        }
        Some(Certificate::Acme(self.acme(acme, server)))
    }

    fn acme(&mut self, fields: &Fields, server: &Server) -> Settings {
        if !fields.flag("agree_to_terms") {
            let message = "authorities give certificates only to those who agree to their terms of service: expected true";
            self.note(fields.problem("agree_to_terms", message));
        }
        let domains = fields.texts("domains");
        if let Some(Spot { line, .. }) = domains.get(DOMAINS_MAX) {
            let message = format!("found {} names, expected at most {DOMAINS_MAX}", domains.len());
            self.note(fields.problem_at(*line, "domains", message));
        }
        for Spot { text, line } in domains {
            if let Some(message) = domain_problem(text) {
                self.note(fields.problem_at(*line, "domains", message));
            }
        }
        let directory = fields.text("directory");
        let is_url = directory.starts_with("https://")
            && directory
                .parse()
                .is_ok_and(|url: http::Uri| url.host().is_some_and(|host| !host.is_empty()));
        if !is_url {
            let message = format!("found {directory:?}, expected a URL that begins with `https://`");
            self.note(fields.problem("directory", message));
        }
        let contact = fields.opt_text("contact");
        if let Some(contact) = contact.filter(|contact| !contact.starts_with("mailto:")) {
            let message =
                format!("found {contact:?}, expected an address such as \"mailto:ops@example.org\"");
            self.note(fields.problem("contact", message));
        }
        let challenge = match fields.text("challenge") {
            "http-01" => Challenge::Http01,
            _ => Challenge::TlsAlpn01,
        };
        if challenge == Challenge::Http01 && server.listen.iter().all(Listen::is_tls) {
            let message = "`http-01` needs an address in server.listen that does not begin with `https://`, which port 80 of the names leads to";
            self.note(fields.problem("challenge", message));
        }
        Settings {
            domains: domains
                .iter()
                .map(|spot| spot.text.to_ascii_lowercase())
                .collect(),
            contact: contact.map(str::to_owned),
            directory: directory.to_owned(),
            directory_ca: self.existing_file(fields, "directory_ca"),
            challenge,
            folder: self.resolve(fields, fields.text("folder")),
        }
    }

    pub(super) fn client_certificates(&mut self, fields: &Fields) -> Option<ClientCertificates> {
        let authorities = self.existing_file(fields, "client_ca");
        let revoked = fields.texts("client_crl").iter();
        let revoked: Vec<(PathBuf, usize)> = revoked
            .map(|file| (self.resolve(fields, &file.text), file.line))
            .collect();
        for (file, line) in revoked.iter().filter(|(file, _)| !file.is_file()) {
            let message = format!("there is no file `{}`", file.display());
            self.note(fields.problem_at(*line, "client_crl", message));
        }
        for key in ["client_crl", "client_certificates"] {
            if fields.written(key) && !fields.written("client_ca") {
                self.note(fields.problem(key, "it says something only beside `client_ca`".to_owned()));
            }
        }
        Some(ClientCertificates {
            authorities: authorities?,
            revoked: revoked.into_iter().map(|(file, _)| file).collect(),
            are_required: fields.text("client_certificates") == "required",
        })
    }
}

/// Why no certificate can be obtained for a name, if so.
fn domain_problem(name: &str) -> Option<String> {
    if name.starts_with("*.") {
        return Some(format!(
            "found {name:?}: authorities give certificates with `*` only by `dns-01`, which this server does not have"
        ));
    }
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = name.len() <= 253
        && name.split('.').all(is_label)
        && !name
            .rsplit('.')
            .next()
            .is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    (!is_name).then(|| {
        format!("found {name:?}, expected a name such as \"www.example.org\" (not an address; with other letters than a to z, its form that begins with `xn--`)")
    })
}
