use std::io::{self, BufRead as _};

use forebay_server::PasswordHash;

use crate::{failure::UsageError, output};

/// Print the hash of a password, for users in the configuration (`auth.NAME.basic`)
///
/// The password is the first line of standard input. Its hash is by Argon2id, with another random salt each time. Example: forebay password < secret.txt
#[derive(Debug, clap::Args)]
pub(crate) struct PasswordArgs {}

pub(crate) fn run(PasswordArgs {}: &PasswordArgs) -> anyhow::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        let message = "the first line of standard input is empty: it must be the password";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(output::line(&PasswordHash::of(password.as_bytes()).to_string())?)
}
