//! The names in the certificate of a client.

use rustls::pki_types::CertificateDer;
use x509_cert::{
    certificate::{CertificateInner, Raw},
    der::Decode as _,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

/// A kind of name in a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateName {
    /// The common name of its subject.
    CommonName,
    /// The whole distinguished name of its subject (RFC 4514).
    DistinguishedName,
    /// A host name among its alternative names.
    Dns,
    /// An e-mail address among its alternative names.
    Email,
    /// A URI among its alternative names, such as an identity of SPIFFE.
    Uri,
}

/// The names in a client's certificate, which the handshake has verified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientCertificate {
    distinguished_name: String,
    common_name: Vec<String>,
    dns: Vec<String>,
    email: Vec<String>,
    uri: Vec<String>,
}

impl ClientCertificate {
    /// Reads a certificate; `None` if its names cannot be read.
    pub fn parse(certificate: &CertificateDer<'_>) -> Option<Self> {
        // Raw: as of the server's own certificates, serial numbers do not matter.
        let certificate = CertificateInner::<Raw>::from_der(certificate).ok()?;
        let certificate = certificate.tbs_certificate();
        let subject = certificate.subject();
        let common_name = subject.common_name().ok()?;
        let mut names = Self {
            distinguished_name: subject.to_string(),
            common_name: common_name.iter().map(|name| name.value().into_owned()).collect(),
            ..Self::default()
        };
        if let Some((_, alternatives)) = certificate.get_extension::<SubjectAltName>().ok()? {
            for name in alternatives.0 {
                match name {
                    GeneralName::DnsName(name) => names.dns.push(name.to_string()),
                    GeneralName::Rfc822Name(name) => names.email.push(name.to_string()),
                    GeneralName::UniformResourceIdentifier(name) => names.uri.push(name.to_string()),
                    _ => {}
                }
            }
        }
        Some(names)
    }

    /// The subject (RFC 4514).
    pub fn distinguished_name(&self) -> &str {
        &self.distinguished_name
    }

    /// All names of a kind.
    pub fn names(&self, kind: CertificateName) -> &[String] {
        match kind {
            CertificateName::CommonName => &self.common_name,
            CertificateName::DistinguishedName => std::slice::from_ref(&self.distinguished_name),
            CertificateName::Dns => &self.dns,
            CertificateName::Email => &self.email,
            CertificateName::Uri => &self.uri,
        }
    }

    /// The first name of a kind that is not empty.
    pub fn name(&self, kind: CertificateName) -> Option<&str> {
        self.names(kind)
            .iter()
            .map(String::as_str)
            .find(|name| !name.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    #[test]
    fn its_names_are_found_by_their_kind() {
        let mut params = CertificateParams::new(["device.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "dévice 7");
        params
            .distinguished_name
            .push(DnType::OrganizationName, "Example, Inc.");
        params.subject_alt_names.extend([
            SanType::URI("spiffe://example/device".try_into().unwrap()),
            SanType::Rfc822Name("ops@example.org".try_into().unwrap()),
        ]);
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let names = ClientCertificate::parse(certificate.der()).unwrap();
        assert_eq!(names.name(CertificateName::CommonName), Some("dévice 7"));
        assert_eq!(names.name(CertificateName::Dns), Some("device.example"));
        assert_eq!(names.name(CertificateName::Email), Some("ops@example.org"));
        assert_eq!(names.name(CertificateName::Uri), Some("spiffe://example/device"));
        let name = names.name(CertificateName::DistinguishedName).unwrap();
        assert!(
            name.contains("O=Example\\, Inc.") && name.contains("CN=d"),
            "{name}"
        );
    }

    #[test]
    fn a_certificate_without_names_has_none() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let names = ClientCertificate::parse(certificate.der()).unwrap();
        for kind in [
            CertificateName::CommonName,
            CertificateName::DistinguishedName,
            CertificateName::Dns,
        ] {
            assert_eq!(names.name(kind), None);
        }
        assert_eq!(
            ClientCertificate::parse(&CertificateDer::from(&b"no certificate"[..])),
            None
        );
    }
}
