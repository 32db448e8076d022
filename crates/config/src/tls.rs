//! `[tls.NAME]`

use std::path::PathBuf;

use forebay_acme::Challenge;
use forebay_tls::CertificateFiles;

use crate::Listen;
use crate::build::Context;
use crate::fields::{Fields, Spot};
use crate::section::{Unused, by_keys, section, unless, words};

/// Most names of a certificate that is obtained: that of Let's Encrypt.
const DOMAINS_MAX: usize = 100;

section! {
    /// A certificate for the `https://` addresses of `server.listen`. It is in files (`cert` and `key`) or obtained by the server (`acme`).
    /// Clients get the one for the name that they ask for, or else the first by NAME. A reload reads the files again.
    #[rules(CertificateKeys::rules)]
    #[unused(CertificateKeys::unused)]
    #[derive(Default)]
    struct CertificateKeys {
        /// A PEM file with the certificate, followed by those of the authorities between it and a root.
        cert: Option<PathBuf> as FILE,
        /// A PEM file with the certificate's private key. Only the server should be able to read it.
        key: Option<PathBuf> as FILE,
        /// A file with the authority's last word on whether the certificate is still good (OCSP, DER), which clients are given with it.
        ocsp: Option<PathBuf> as FILE,
        /// Instead of `cert` and `key`: the server obtains the certificate itself from an authority that speaks ACME, such as Let's Encrypt,
        /// and renews it after two thirds of its life.
        acme: Option<AcmeKeys>,
    }
}

section! {
    /// `tls.NAME.acme`
    #[rules(AcmeKeys::rules)]
    #[check(AcmeKeys::check)]
    struct AcmeKeys {
        /// The names that the certificate is for, at most 100; none with a `*`.
        domains: Vec<String> as at_least(1),
        /// It must be `true`: you agree to the authority's terms of service, which its directory names.
        agree_to_terms: bool = "false",
        /// Where the account and the certificates are kept, for this user alone; made if it is not there. Processes that share it do not
        /// order the same certificate twice.
        folder: PathBuf = "certificates",
        /// Where the authority reaches you, such as `mailto:ops@example.org`.
        contact: Option<String>,
        /// How the authority sees that the names are this server's: `tls-alpn-01` by a handshake on port 443, `http-01` by a request on port
        /// 80.
        challenge: Challenge = "tls-alpn-01",
        /// The authority: the URL of its ACME directory.
        directory: String = "https://acme-v02.api.letsencrypt.org/directory",
        /// A PEM file with the authorities that have signed the certificate of the directory itself. Without it those that the system trusts.
        directory_ca: Option<PathBuf> as FILE,
    }
}

words! {
    for Challenge {
        TlsAlpn01 = "tls-alpn-01",
        Http01 = "http-01",
    }
}

/// Where a certificate comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Certificate {
    /// From files that somebody else renews.
    Files(CertificateFiles),
    /// From an authority.
    Acme(forebay_acme::Settings),
}
by_keys!(Certificate, CertificateKeys);

impl CertificateKeys {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let is_missing = |key: &&str| !fields.has("acme") && !fields.has(key);
        for key in ["cert", "key"].into_iter().filter(is_missing) {
            let message = "it is required: a certificate has `cert` and `key`, or `acme`";
            context.note(fields.problem(key, message));
        }
    }

    fn unused(&self) -> Unused {
        let why = "it is not for a certificate that `acme` obtains";
        unless(self.acme.is_none(), &["cert", "key", "ocsp"], why)
    }
}

impl Certificate {
    fn of(keys: CertificateKeys, _: &Fields, _: &mut Context<'_>) -> Option<Self> {
        let Some(acme) = keys.acme else {
            return Some(Self::Files(CertificateFiles {
                cert: keys.cert?,
                key: keys.key?,
                ocsp: keys.ocsp,
            }));
        };
        Some(Self::Acme(forebay_acme::Settings {
            domains: acme.domains,
            contact: acme.contact,
            directory: acme.directory,
            directory_ca: acme.directory_ca,
            challenge: acme.challenge,
            folder: acme.folder,
        }))
    }

    /// As a file says it.
    fn keys(&self) -> CertificateKeys {
        match self.clone() {
            Self::Files(files) => CertificateKeys {
                cert: Some(files.cert),
                key: Some(files.key),
                ocsp: files.ocsp,
                acme: None,
            },
            Self::Acme(acme) => CertificateKeys {
                acme: Some(AcmeKeys {
                    domains: acme.domains,
                    agree_to_terms: true,
                    folder: acme.folder,
                    contact: acme.contact,
                    challenge: acme.challenge,
                    directory: acme.directory,
                    directory_ca: acme.directory_ca,
                }),
                ..CertificateKeys::default()
            },
        }
    }
}

impl AcmeKeys {
    fn rules(fields: &Fields, context: &mut Context<'_>) {
        let domains = fields.texts("domains");
        if let Some(Spot { line, .. }) = domains.get(DOMAINS_MAX) {
            let message = format!("found {} names, expected at most {DOMAINS_MAX}", domains.len());
            context.note(fields.problem_at(*line, "domains", message));
        }
        for Spot { text, line } in domains {
            if let Some(message) = domain_problem(text) {
                context.note(fields.problem_at(*line, "domains", message));
            }
        }
        let directory = fields.text("directory").unwrap_or_default();
        let has_host = |url: http::Uri| url.host().is_some_and(|host| !host.is_empty());
        if !directory.starts_with("https://") || !directory.parse().is_ok_and(has_host) {
            let message = format!("found {directory:?}, expected a URL that begins with `https://`");
            context.note(fields.problem("directory", message));
        }
        if let Some(contact) = fields
            .text("contact")
            .filter(|contact| !contact.starts_with("mailto:"))
        {
            let message =
                format!("found {contact:?}, expected an address such as \"mailto:ops@example.org\"");
            context.note(fields.problem("contact", message));
        }
        let server = context.sections.find("server", "").into_iter();
        let mut listen = server.flat_map(|server| server.texts("listen"));
        let mut has_plain =
            || listen.any(|spot| spot.text.parse().is_ok_and(|listen: Listen| !listen.is_tls()));
        if fields.text("challenge") == Some("http-01") && !has_plain() {
            let message = "`http-01` needs an address in server.listen that does not begin with `https://`, which port 80 of the names leads to";
            context.note(fields.problem("challenge", message));
        }
    }

    fn check(&mut self, fields: &Fields, context: &mut Context<'_>) {
        if !self.agree_to_terms {
            let message = "authorities give certificates only to those who agree to their terms of service: expected true";
            context.note(fields.problem("agree_to_terms", message));
        }
        for domain in &mut self.domains {
            domain.make_ascii_lowercase();
        }
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
