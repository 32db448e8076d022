//! TLS to a server: its certificate must come from a trusted authority, and be valid for the name that is connected to
//! (`verify-full`, manual, 34.19).

use std::{
    io,
    path::Path,
    sync::{Arc, OnceLock},
};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use sha2::{Digest as _, Sha256, Sha384, Sha512};

use crate::PgError;

/// Verification of a server's certificate; clones share the loaded authorities.
#[derive(Clone, Debug)]
pub(crate) struct Tls {
    /// File with the authorities; `None` for those of the system.
    roots: Option<String>,
    config: Arc<OnceLock<Arc<ClientConfig>>>,
}

impl PartialEq for Tls {
    fn eq(&self, other: &Self) -> bool {
        self.roots == other.roots
    }
}

impl Eq for Tls {}

impl Tls {
    pub(crate) fn new(roots: Option<String>) -> Self {
        Self {
            roots,
            config: Arc::default(),
        }
    }

    /// Path of the file with the authorities.
    pub(crate) fn roots(&self) -> Option<&str> {
        self.roots.as_deref()
    }

    /// Configuration and server name for a connection to a host. Loads files on first use.
    pub(crate) fn load(&self, host: &str) -> Result<(Arc<ClientConfig>, ServerName<'static>), PgError> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| failed(format!("{host:?} is no name of a server")))?;
        if let Some(config) = self.config.get() {
            return Ok((Arc::clone(config), name));
        }
        let config = forebay_tls::client_config(self.trusted()?);
        let config = Arc::clone(self.config.get_or_init(|| Arc::new(config)));
        Ok((config, name))
    }

    fn trusted(&self) -> Result<RootCertStore, PgError> {
        let Some(path) = &self.roots else {
            let roots = forebay_tls::system_authorities();
            if roots.is_empty() {
                return Err(failed(
                    "this system has no certificates of authorities; sslrootcert=FILE names one".into(),
                ));
            }
            return Ok(roots);
        };
        forebay_tls::authorities(Path::new(path)).map_err(|error| failed(format!("{error} (sslrootcert)")))
    }
}

/// Maps the error of a failed handshake.
pub(crate) fn refused(error: &io::Error) -> PgError {
    failed(error.to_string())
}

fn failed(reason: String) -> PgError {
    PgError::Tls { reason }
}

/// Channel binding data of the server's certificate: its hash, with the algorithm of its signature (RFC 5929,
/// `tls-server-end-point`). `None` if that is undefined.
pub(crate) fn end_point(certificates: Option<&[CertificateDer<'_>]>) -> Option<Vec<u8>> {
    let certificate = certificates?.first()?;
    let (last, family) = signature_algorithm(certificate)?.split_last()?;
    let is_rsa = family == RSA;
    let is_ecdsa = family == ECDSA;
    match last {
        // SHA-256 replaces MD5 and SHA-1.
        0x04 | 0x05 | 0x0b if is_rsa => Some(Sha256::digest(certificate).to_vec()),
        0x02 if is_ecdsa => Some(Sha256::digest(certificate).to_vec()),
        0x0c if is_rsa => Some(Sha384::digest(certificate).to_vec()),
        0x03 if is_ecdsa => Some(Sha384::digest(certificate).to_vec()),
        0x0d if is_rsa => Some(Sha512::digest(certificate).to_vec()),
        0x04 if is_ecdsa => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// Prefixes of the OIDs of RSA (RFC 8017) and ECDSA (RFC 5758) signatures, whose last part identifies the hash.
const RSA: [u8; 8] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];

/// OID of a certificate's signature algorithm: the first element of its second element (RFC 5280, 4.1).
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (whole, _) = element(certificate)?;
    let (_, behind) = element(whole)?;
    let (algorithm, _) = element(behind)?;
    element(algorithm).map(|(number, _)| number)
}

/// Content of a DER element, and the rest.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&first, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = digits.iter().try_fold(0_usize, |length, &digit| {
            length.checked_mul(256)?.checked_add(usize::from(digit))
        })?;
        (length, rest)
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};
    use sha2::{Digest as _, Sha256, Sha384};

    use super::end_point;

    fn certificate(
        algorithm: &'static rcgen::SignatureAlgorithm,
    ) -> rustls::pki_types::CertificateDer<'static> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.self_signed(&key).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_is_hashed_by_the_algorithm_of_its_signature() {
        let small = certificate(&PKCS_ECDSA_P256_SHA256);
        assert_eq!(
            end_point(Some(std::slice::from_ref(&small))),
            Some(Sha256::digest(&small).to_vec())
        );
        let large = certificate(&PKCS_ECDSA_P384_SHA384);
        assert_eq!(
            end_point(Some(std::slice::from_ref(&large))),
            Some(Sha384::digest(&large).to_vec())
        );
        assert_eq!(end_point(Some(&[certificate(&PKCS_ED25519)])), None);
        assert_eq!(end_point(None), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_as_a_certificate_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = end_point(Some(&[bytes.into()]));
        }
    }
}
