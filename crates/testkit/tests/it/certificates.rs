//! Certificates for test servers.

use std::sync::atomic::{AtomicU64, Ordering};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType, IsCa,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, date_time_ymd,
};

/// The serial number of the next certificate.
static SERIAL: AtomicU64 = AtomicU64::new(1);

pub(crate) type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A new authority, trusted by no client yet.
pub(crate) fn issuer(name: &str) -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).expect("no names are right");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
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
    let (certificate, key, _) = with_serial(issuer, name, years);
    (certificate, key)
}

/// As [`for_name`], with the serial number.
pub(crate) fn with_serial(
    issuer: &Issuer,
    name: &str,
    years: std::ops::Range<i32>,
) -> (rcgen::Certificate, KeyPair, u64) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params.not_before = date_time_ymd(years.start, 1, 1);
    params.not_after = date_time_ymd(years.end, 1, 1);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    params.serial_number = Some(serial.into());
    let key = KeyPair::generate().expect("a key is made");
    let certificate = params.signed_by(&key, issuer).expect("it is signed");
    (certificate, key, serial)
}

/// A list of an authority's revoked certificates, as PEM.
pub(crate) fn revocation_list(issuer: &Issuer, serials: &[u64]) -> String {
    let revoked = |serial: &u64| RevokedCertParams {
        serial_number: (*serial).into(),
        revocation_time: date_time_ymd(2021, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let params = CertificateRevocationListParams {
        this_update: date_time_ymd(2020, 1, 1),
        next_update: date_time_ymd(2100, 1, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: serials.iter().map(revoked).collect(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    let list = params.signed_by(issuer).expect("it is signed");
    list.pem().expect("it is text")
}
