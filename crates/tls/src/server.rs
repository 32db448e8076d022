//! TLS of a server's own listeners: a certificate is chosen by the name that a client asks for (SNI: RFC 6066, 3).

use std::{path::PathBuf, sync::Arc};

use rustls::{
    ServerConfig,
    crypto::{CryptoProvider, ring},
    pki_types::CertificateRevocationListDer,
    server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::CertifiedKey,
};

use crate::{
    CertificateError, CertificateSlot, authorities,
    certificate::{objects, read},
};

/// Which certificates of their own clients may or must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// The authorities that sign them, as PEM.
    pub authorities: PathBuf,
    /// Lists of those that are revoked, as PEM.
    pub revoked: Vec<PathBuf>,
    /// Whether a client without one is turned away.
    pub are_required: bool,
}

/// Settings of listeners with these certificates, TLS 1.2 and 1.3. A client that asks for none of their names gets the first that is there.
pub fn server_config(
    certificates: Vec<Arc<CertificateSlot>>,
    clients: Option<&ClientCertificates>,
    protocols: &[&[u8]],
) -> Result<ServerConfig, CertificateError> {
    let provider = Arc::new(ring::default_provider());
    let clients = match clients {
        Some(clients) => verifier(clients, &provider)?,
        None => WebPkiClientVerifier::no_client_auth(),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has ciphers for both versions")
        .with_client_cert_verifier(clients)
        .with_cert_resolver(Arc::new(ByName(certificates)));
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    // Without tickets, sessions are resumed only from this process's own small memory of them.
    if let Ok(ticketer) = ring::Ticketer::new() {
        config.ticketer = ticketer;
    }
    Ok(config)
}

fn verifier(
    clients: &ClientCertificates,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let authorities = authorities(&clients.authorities)?;
    let mut revoked: Vec<CertificateRevocationListDer<'static>> = Vec::new();
    for file in &clients.revoked {
        let lists = objects(file, &read(file)?)?;
        if lists.is_empty() {
            return Err(CertificateError::NoList { path: file.clone() });
        }
        revoked.extend(lists);
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(authorities), Arc::clone(provider));
    let builder = builder.with_crls(revoked).allow_unknown_revocation_status();
    let builder = if clients.are_required {
        builder
    } else {
        builder.allow_unauthenticated()
    };
    builder.build().map_err(|error| CertificateError::Clients {
        path: clients.authorities.clone(),
        reason: error.to_string(),
    })
}

/// Certificates, the first of which is for clients that ask for no name, or for an unknown one.
#[derive(Debug)]
struct ByName(Vec<Arc<CertificateSlot>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello
            .server_name()
            .and_then(|name| self.0.iter().find(|slot| slot.is_for(name)));
        match asked {
            // Another certificate would not do for a name whose own is still to be obtained.
            Some(slot) => slot.key(),
            None => self.0.iter().find_map(|slot| slot.key()),
        }
    }
}
