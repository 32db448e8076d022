//! Certificates of a server's listeners, with their keys.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use parking_lot::RwLock;
use rustls::{
    client::verify_server_name,
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, ServerName,
        pem::{self, PemObject},
    },
    server::ParsedCertificate,
    sign::CertifiedKey,
};
use x509_cert::{
    certificate::{CertificateInner, Raw},
    der::{Decode as _, Error as DerError},
};

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate, followed by those of the authorities between it and a root, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
    /// The authority's last word on whether it is still good (OCSP: RFC 6960), as DER, which clients are given with it.
    pub ocsp: Option<PathBuf>,
}

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file is not PEM.
    #[error("{} cannot be read as PEM: {source}", path.display())]
    Pem {
        /// The PEM file.
        path: PathBuf,
        /// The error in it.
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("{} has no certificate (-----BEGIN CERTIFICATE-----)", path.display())]
    NoCertificate {
        /// The PEM file of the certificate.
        path: PathBuf,
    },
    /// The certificate is not one of X.509.
    #[error("the certificate in {} is malformed: {source}", path.display())]
    Malformed {
        /// The PEM file of the certificate.
        path: PathBuf,
        /// The error in it.
        source: DerError,
    },
    /// The certificate cannot be that of an authority.
    #[error("the certificate in {} is not one of an authority: {source}", path.display())]
    Authority {
        /// The PEM file of the authorities.
        path: PathBuf,
        /// The cause, as rustls says it.
        source: rustls::Error,
    },
    /// The file has no list of revoked certificates.
    #[error("{} has no list of revoked certificates (-----BEGIN X509 CRL-----)", path.display())]
    NoList {
        /// The PEM file of revoked certificates.
        path: PathBuf,
    },
    /// A file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// The file that was to be read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Certificates of clients cannot be checked with these files.
    #[error("the certificates of clients cannot be checked by {}: {reason}", path.display())]
    Clients {
        /// The file of authorities.
        path: PathBuf,
        /// The cause, as rustls says it.
        reason: String,
    },
    /// The key cannot be used with the certificate.
    #[error("the key in {} does not fit the certificate in {}: {source}", key.display(), cert.display())]
    Unfit {
        /// The certificate's file.
        cert: PathBuf,
        /// The key's file.
        key: PathBuf,
        /// The cause, as rustls says it.
        source: rustls::Error,
    },
}

/// When a certificate is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// From then on.
    pub from: SystemTime,
    /// Until then.
    pub until: SystemTime,
}

/// A certificate with its key, ready for use.
#[derive(Clone, Debug)]
pub struct ServerCertificate {
    key: Arc<CertifiedKey>,
    validity: Validity,
}

impl ServerCertificate {
    /// Reads the files of a certificate.
    pub fn read(files: &CertificateFiles) -> Result<Self, CertificateError> {
        let ocsp = files.ocsp.as_deref().map(read).transpose()?;
        let (cert, key) = (read(&files.cert)?, read(&files.key)?);
        Self::load((&files.cert, &cert), (&files.key, &key), ocsp)
    }

    /// Parses a certificate and its key, together as PEM; `file` is named in errors.
    pub fn parse(file: &Path, pem: &[u8]) -> Result<Self, CertificateError> {
        Self::load((file, pem), (file, pem), None)
    }

    fn load(
        (cert_path, cert): (&Path, &[u8]),
        (key_path, key): (&Path, &[u8]),
        ocsp: Option<Vec<u8>>,
    ) -> Result<Self, CertificateError> {
        let chain = certificates(cert_path, cert)?;
        let validity = validity(&chain[0]).map_err(|source| CertificateError::Malformed {
            path: cert_path.to_owned(),
            source,
        })?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|source| CertificateError::Pem {
            path: key_path.to_owned(),
            source,
        })?;
        let key = CertifiedKey::from_der(chain, key, &ring::default_provider());
        let mut key = key.map_err(|source| CertificateError::Unfit {
            cert: cert_path.to_owned(),
            key: key_path.to_owned(),
            source,
        })?;
        key.ocsp = ocsp;
        Ok(Self {
            key: Arc::new(key),
            validity,
        })
    }

    /// When it is good.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Whether it is for this name, as clients see that.
    pub fn is_for(&self, name: &str) -> bool {
        ServerName::try_from(name).is_ok_and(|name| {
            let parsed = self.key.cert.first().map(ParsedCertificate::try_from);
            parsed.is_some_and(|parsed| parsed.is_ok_and(|parsed| verify_server_name(&parsed, &name).is_ok()))
        })
    }
}

/// Where listeners find a certificate. It may be missing at first, and replaced while it is in use.
#[derive(Debug)]
pub struct CertificateSlot {
    /// The names for which a missing certificate will be.
    names: Vec<String>,
    current: RwLock<Option<ServerCertificate>>,
}

impl CertificateSlot {
    /// A slot with a certificate.
    pub fn new(certificate: ServerCertificate) -> Self {
        Self {
            names: Vec::new(),
            current: RwLock::new(Some(certificate)),
        }
    }

    /// A slot for a certificate that is still to be obtained.
    pub fn missing(names: Vec<String>) -> Self {
        Self {
            names,
            current: RwLock::new(None),
        }
    }

    /// Puts a certificate in force for new connections.
    pub fn replace(&self, certificate: ServerCertificate) {
        *self.current.write() = Some(certificate);
    }

    /// The certificate in force.
    pub fn current(&self) -> Option<ServerCertificate> {
        self.current.read().clone()
    }

    /// Whether a certificate for this name is still to be obtained.
    pub fn is_missing_for(&self, name: &str) -> bool {
        self.current.read().is_none() && self.names.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Whether its certificate is for this name, or will be.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        match &*self.current.read() {
            Some(certificate) => certificate.is_for(name),
            None => self.names.iter().any(|own| own.eq_ignore_ascii_case(name)),
        }
    }

    pub(crate) fn key(&self) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read().as_ref()?.key))
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, CertificateError> {
    fs::read(path).map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        source,
    })
}

/// All objects of a kind in a text of PEM.
pub(crate) fn objects<T: PemObject>(path: &Path, pem: &[u8]) -> Result<Vec<T>, CertificateError> {
    let objects: Result<_, _> = T::pem_slice_iter(pem).collect();
    objects.map_err(|source| CertificateError::Pem {
        path: path.to_owned(),
        source,
    })
}

/// At least one certificate.
pub(crate) fn certificates(
    path: &Path,
    pem: &[u8],
) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let found = objects(path, pem)?;
    if found.is_empty() {
        let path = path.to_owned();
        return Err(CertificateError::NoCertificate { path });
    }
    Ok(found)
}

fn validity(certificate: &CertificateDer<'_>) -> Result<Validity, DerError> {
    // Raw: serial numbers that RFC 5280 forbids are no reason to refuse a certificate.
    let certificate = CertificateInner::<Raw>::from_der(certificate)?;
    let validity = certificate.tbs_certificate().validity();
    Ok(Validity {
        from: validity.not_before.to_system_time(),
        until: validity.not_after.to_system_time(),
    })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, SerialNumber, date_time_ymd};

    use super::*;

    #[test]
    fn it_says_when_it_is_good_whatever_its_serial_number() {
        let mut params = CertificateParams::new(["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
        // RFC 5280 allows 20 bytes.
        params.serial_number = Some(SerialNumber::from(vec![0x7f; 25]));
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem() + &key.serialize_pem();
        let certificate = ServerCertificate::parse(Path::new("a.pem"), pem.as_bytes()).unwrap();
        let (from, until) = (params.not_before.into(), params.not_after.into());
        assert_eq!(certificate.validity(), Validity { from, until });
        assert!(certificate.is_for("a.example") && !certificate.is_for("b.example"));
    }
}
