//! `[tls.NAME]`, and what `[server]` says about certificates of clients.

use std::path::PathBuf;

use forebay_tls::{CertificateFiles, ClientCertificates};

use super::Builder;
use crate::fields::Fields;

impl Builder<'_> {
    /// Returns `None` after reporting a problem.
    pub(super) fn tls(&mut self, name: &str, fields: &Fields) -> Option<CertificateFiles> {
        self.check_name(name, "certificate", fields);
        let (cert, key) = (
            self.existing_file(fields, "cert"),
            self.existing_file(fields, "key"),
        );
        Some(CertificateFiles {
            ocsp: self.existing_file(fields, "ocsp"),
            cert: cert?,
            key: key?,
        })
    }

    pub(super) fn client_certificates(&mut self, fields: &Fields) -> Option<ClientCertificates> {
        let authorities = self.existing_file(fields, "client_ca");
        let revoked = fields.texts("client_crl").iter();
        let revoked: Vec<(PathBuf, usize)> = revoked
            .map(|file| (self.resolve(fields, &file.text), file.line))
            .collect();
        for (file, line) in revoked.iter().filter(|(file, _)| !file.is_file()) {
            let message = format!("there is no file `{}`", file.display());
            self.note(fields.problem_at(*line, "client_crl", message));
        }
        for key in ["client_crl", "client_certificates"] {
            if fields.written(key) && !fields.written("client_ca") {
                self.note(fields.problem(key, "it says something only beside `client_ca`".to_owned()));
            }
        }
        Some(ClientCertificates {
            authorities: authorities?,
            revoked: revoked.into_iter().map(|(file, _)| file).collect(),
            are_required: fields.text("client_certificates") == "required",
        })
    }
}
