//! Certificates for test servers.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A new authority, trusted by no client yet.
pub(crate) fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are right");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    let key = KeyPair::generate().expect("a key is made");
    CertifiedIssuer::self_signed(params, key).expect("it signs itself")
}

/// A certificate for `localhost` that is good in these years, and its key.
pub(crate) fn for_localhost(issuer: &Issuer, years: std::ops::Range<i32>) -> (rcgen::Certificate, KeyPair) {
    for_name(issuer, "localhost", years)
}

/// A certificate for a name that is good in these years, and its key.
pub(crate) fn for_name(
    issuer: &Issuer,
    name: &str,
    years: std::ops::Range<i32>,
) -> (rcgen::Certificate, KeyPair) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(years.start, 1, 1);
    params.not_after = date_time_ymd(years.end, 1, 1);
    let key = KeyPair::generate().expect("a key is made");
    let certificate = params.signed_by(&key, issuer).expect("it is signed");
    (certificate, key)
}
