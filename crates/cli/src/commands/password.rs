use std::io::{self, BufRead as _, IsTerminal as _};

use forebay_server::PasswordHash;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};

use crate::{failure::UsageError, output};

/// Print the hash of a password, for users in the configuration (`auth.NAME.basic`)
///
/// The password is the first line of standard input; a terminal does not show it. Its hash is by Argon2id, with another random salt each time. Example: forebay password < secret.txt
#[derive(Debug, clap::Args)]
pub(crate) struct PasswordArgs {}

pub(crate) fn run(PasswordArgs {}: &PasswordArgs) -> anyhow::Result<()> {
    let line = if io::stdin().is_terminal() {
        ask()?
    } else {
        read()?
    };
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        let message = "the first line of standard input is empty: it must be the password";
        return Err(UsageError(message.to_owned()).into());
    }
    Ok(output::line(&PasswordHash::of(password.as_bytes()).to_string())?)
}

fn read() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

/// Asks for a line on a terminal that shows nothing of it but its end.
fn ask() -> io::Result<String> {
    let shown = tcgetattr(io::stdin())?;
    let mut hidden = shown.clone();
    hidden.local_modes.remove(LocalModes::ECHO);
    hidden.local_modes.insert(LocalModes::ECHONL);
    tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
    output::picture("Password: ");
    let line = read();
    tcsetattr(io::stdin(), OptionalActions::Now, &shown)?;
    line
}
