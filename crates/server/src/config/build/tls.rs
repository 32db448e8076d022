//! `[tls.NAME]`

use forebay_tls::CertificateFiles;

use super::Builder;
use crate::config::fields::Fields;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn tls(&mut self, name: &str, fields: &Fields) -> Option<CertificateFiles> {
        self.check_name(name, "certificate", fields);
        let (cert, key) = (
            self.existing_file(fields, "cert"),
            self.existing_file(fields, "key"),
        );
        Some(CertificateFiles {
            cert: cert?,
            key: key?,
        })
    }
}
