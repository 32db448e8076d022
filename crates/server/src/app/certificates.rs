//! The certificates of listeners.

use std::{collections::BTreeMap, io, sync::Arc};

use forebay_acme::AcmeClient;
use forebay_tls::{CertificateError, CertificateFiles, CertificateSlot, ServerCertificate};
use tokio_rustls::rustls::ServerConfig;

use crate::config::{self, Config};

/// Protocols that listeners with TLS offer (ALPN).
const PROTOCOLS: &[&[u8]] = &[b"h2", b"http/1.1"];

/// Certificates of the listeners, by the names of their sections.
pub(crate) type Certificates = BTreeMap<String, Arc<CertificateSlot>>;

/// Certificates read before root privileges were dropped: the files may be readable by root only.
#[derive(Debug, Default)]
pub(crate) struct PrivilegedCertificates(Vec<(CertificateFiles, ServerCertificate)>);

impl PrivilegedCertificates {
    /// Reads the certificates if the configuration has `user` or `group`.
    pub(crate) fn read(config: &Config) -> Result<Self, CertificateError> {
        if config.server.user.is_none() && config.server.group.is_none() {
            return Ok(Self::default());
        }
        let files = config.tls.values().filter_map(|certificate| match certificate {
            config::Certificate::Files(files) => Some(files),
            config::Certificate::Acme(_) => None,
        });
        let read = files.map(|files| Ok((files.clone(), ServerCertificate::read(files)?)));
        Ok(Self(read.collect::<Result<_, _>>()?))
    }

    /// Reads a certificate, or returns the one read at startup if the file is no longer accessible.
    fn read_again(&self, files: &CertificateFiles) -> Result<ServerCertificate, CertificateError> {
        ServerCertificate::read(files).or_else(|error| {
            let early = self.0.iter().find(|(of, _)| of == files);
            match (&error, early) {
                (CertificateError::Read { source, .. }, Some((_, early)))
                    if source.kind() == io::ErrorKind::PermissionDenied =>
                {
                    tracing::warn!(
                        target: "forebay::tls",
                        "{error}: keeping the certificate that was read at startup. To renew it without a restart, make the file readable \
                         for server.user or server.group"
                    );
                    Ok(early.clone())
                }
                _ => Err(error),
            }
        })
    }
}

/// The certificates of a configuration: from files, or as far as they have been obtained.
pub(crate) fn certificates(
    config: &Config,
    acme: &AcmeClient,
    early: &PrivilegedCertificates,
) -> Result<Certificates, CertificateError> {
    let slot = |(name, certificate): (&String, &config::Certificate)| {
        let slot = match certificate {
            config::Certificate::Files(files) => Arc::new(CertificateSlot::new(early.read_again(files)?)),
            config::Certificate::Acme(settings) => acme.slot(name, settings),
        };
        Ok((name.clone(), slot))
    };
    config.tls.iter().map(slot).collect()
}

/// Settings of listeners with these certificates; `None` without any.
pub(crate) fn tls(
    config: &Config,
    certificates: &Certificates,
) -> Result<Option<Arc<ServerConfig>>, CertificateError> {
    if certificates.is_empty() {
        return Ok(None);
    }
    Ok(Some(Arc::new(forebay_tls::server_config(
        certificates.values().cloned().collect(),
        config.server.client_certificates().as_ref(),
        PROTOCOLS,
    )?)))
}

/// The certificate for development of this user, for `localhost`, made if it is not there yet.
pub fn development_certificate() -> io::Result<CertificateFiles> {
    forebay_tls::development_certificate(&forebay_runtimes::cache_folder().join("tls"))
}
