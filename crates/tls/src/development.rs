//! A self-signed certificate for development.

use std::{
    fs, io,
    path::Path,
    time::{Duration, SystemTime},
};

use rcgen::{CertificateParams, DnType, KeyPair};

use crate::{CertificateFiles, write_private};

/// Names for which the certificate is good.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
/// How long the certificate is good. Browsers refuse more than 398 days.
const GOOD_FOR: Duration = Duration::from_hours(24 * 365);
/// A certificate that is older is made anew.
const AGE_MAX: Duration = Duration::from_hours(24 * 300);

/// The development certificate of a folder, which is made there unless it is there and not old. It is in one file with its key, so that two
/// servers that start at once cannot mix theirs. Only this user can read it.
pub fn development_certificate(folder: &Path) -> io::Result<CertificateFiles> {
    let file = folder.join("localhost.pem");
    let files = CertificateFiles {
        cert: file.clone(),
        key: file.clone(),
        ocsp: None,
    };
    let made = fs::metadata(&file).and_then(|about| about.modified());
    if made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age < AGE_MAX)) {
        return Ok(files);
    }
    let key = KeyPair::generate().map_err(io::Error::other)?;
    let names: Vec<String> = NAMES.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).map_err(io::Error::other)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "Forebay, for development");
    let now = SystemTime::now();
    // Clocks of clients may be behind.
    params.not_before = (now - Duration::from_hours(1)).into();
    params.not_after = (now + GOOD_FOR).into();
    let cert = params.self_signed(&key).map_err(io::Error::other)?;
    fs::create_dir_all(folder)?;
    write_private(&file, &(cert.pem() + &key.serialize_pem()))?;
    Ok(files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn it_is_made_once_and_its_key_is_private() {
        let folder = std::env::temp_dir().join(format!("forebay-development-{}", std::process::id()));
        let files = development_certificate(&folder).unwrap();
        let mode = fs::metadata(&files.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let made = fs::read(&files.cert).unwrap();
        assert_eq!(development_certificate(&folder).unwrap(), files);
        assert_eq!(fs::read(&files.cert).unwrap(), made, "it is made once");
        crate::ServerCertificate::read(&files).unwrap();
        fs::remove_dir_all(&folder).unwrap();
    }
}
