//! Encrypted connections.

use std::{fs, path::PathBuf};

use forebay_pg::{Driver, Source};
use forebay_testkit::{Folder, Postgres};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use crate::rig::{BOTH, query, run, settings, value};

/// A certificate authority, and a certificate of it for `localhost`.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    fn file(&self, folder: &Folder, name: &str) -> PathBuf {
        let path = folder.path().join(name);
        fs::write(&path, self.issuer.pem()).unwrap();
        path
    }
}

/// Configures a server with a certificate for `localhost`.
fn encrypt(postgres: &Postgres, authority: &Authority) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let mut admin = postgres.admin();
    // The server must own its files, so it writes them itself.
    for (name, pem) in [
        ("server.crt", certificate.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        let quoted = pem.replace('\n', "@");
        let copy = format!("copy (select '{quoted}') to program 'umask 077; tr @ \"\\n\" > {name}'");
        admin.batch_execute(&copy).unwrap();
    }
    admin.batch_execute("alter system set ssl = on").unwrap();
    admin.batch_execute("select pg_reload_conf()").unwrap();
}

fn source(postgres: &Postgres, driver: Driver, host: &str, roots: &std::path::Path) -> Source {
    let url = postgres.url();
    let url = url.split('?').next().unwrap();
    let url = url.replace("127.0.0.1", host);
    let url = format!("{url}?sslmode=verify-full&sslrootcert={}", roots.display());
    Source::new("main", settings(&url, driver), 1)
}

#[test]
fn a_server_is_trusted_by_its_authority_and_its_name_and_with_nothing_else() {
    let postgres = Postgres::start();
    let folder = Folder::new();
    let authority = Authority::new("one");
    let roots = authority.file(&folder, "one.pem");
    let other = Authority::new("another").file(&folder, "another.pem");
    encrypt(&postgres, &authority);
    run(async {
        for driver in BOTH {
            let trusted = source(&postgres, driver, "localhost", &roots);
            let text = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
            assert_eq!(value(&trusted, text, &[]).await, "t");
            let large = "select length($1), repeat($1, 100)";
            let parameter = "x".repeat(100_000);
            let rows = query(&trusted, large, &[Some(&parameter)]).await.unwrap();
            assert_eq!(rows.rows[0].text(1).unwrap().len(), 10_000_000);
            // Cancellation requests use TLS too.
            let soon = std::time::Instant::now() + std::time::Duration::from_millis(50);
            assert!(trusted.query("select pg_sleep(1000)", &[], soon).await.is_err());
            assert_eq!(value(&trusted, text, &[]).await, "t");

            for (host, roots, part) in [
                ("localhost", &other, "UnknownIssuer"),
                ("127.0.0.1", &roots, "not valid for name"),
                (
                    "localhost",
                    &folder.path().join("none.pem"),
                    "none.pem cannot be read",
                ),
            ] {
                let source = source(&postgres, driver, host, roots);
                let error = query(&source, "select 1", &[]).await.unwrap_err().to_string();
                assert!(error.contains(part), "{error}");
            }
        }
    });
}
