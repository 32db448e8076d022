//! `[cluster]`

use std::path::PathBuf;

use forebay_cluster::{NatsServers, Options};

use crate::build::Context;
use crate::fields::Fields;
use crate::section::section;
use crate::setting::parsed;

section! {
    /// The cluster whose machines run the workers of pools with `at = "cluster"`. Its processes find each other over NATS.
    #[rules(rules)]
    for Options {
        /// Where NATS listens, and who connects: `nats://user:password@host:4222`, `nats://token@host`, or `tls:` for TLS alone. Several are
        /// separated by commas. What is not plain in a name or a password is percent-encoded; a secret is best `${NAME}`.
        nats: NatsServers,
        /// A file with the JWT and the seed of a user (`.creds`), for servers with accounts; in the place of a login in `nats`. It is read at
        /// the start.
        credentials: Option<PathBuf> as FILE,
        /// The name of the cluster: clusters that share servers of NATS have different ones. 1 to 64 letters, digits, `-` and `_`.
        name: String = "main",
        /// A PEM file with the authorities that sign the certificates of the servers. Without it those that the system trusts.
        ca: Option<PathBuf> as FILE,
        /// A PEM file with a certificate for servers that ask for one; together with `key`.
        cert: Option<PathBuf> as FILE,
        /// A PEM file with the private key of `cert`.
        key: Option<PathBuf> as FILE,
        /// With it, the jobs of routes with `durable` are in JetStream, in so many copies, and all front ends share them; without it, they are
        /// in the [store] of each. Three copies survive the loss of a server of NATS. Needs NATS 2.11 or newer with JetStream.
        job_replicas: Option<usize> as integer(1, 5),
    }
}

fn rules(fields: &Fields, context: &mut Context<'_>) {
    let name = fields.text("name").unwrap_or("main");
    // It is a part of subjects, which `.`, `*`, `>` and spaces would change.
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !(1..=64).contains(&name.len()) || !name.bytes().all(is_plain) {
        let message = format!("found {name:?}, expected 1 to 64 letters, digits, `-` and `_`");
        context.note(fields.problem("name", message));
    }
    if fields.has("credentials") && fields.text("nats").is_some_and(|nats| nats.contains('@')) {
        let message = "the URL of `nats` has a login already: use one of the two";
        context.note(fields.problem("credentials", message));
    }
    if fields.has("cert") != fields.has("key") {
        let message = "`cert` and `key` are written together, or neither of them";
        context.note(fields.problem("cert", message));
    }
}

// A URL may contain a password, so the errors do not repeat it.
parsed!("what is written there ": NatsServers);
