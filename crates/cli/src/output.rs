//! Standard output and standard error: the only place that writes to them.

use std::io::{self, BufWriter, IsTerminal, Write};

use forebay_server::logging::colour_is_wanted;

/// Why standard output cannot be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum OutputError {
    /// The reader has gone, as in `forebay check | head -1`: it has what it needs, and the command may end.
    #[error("standard output was closed by its reader")]
    ReaderGone,
    /// Any other error, such as a full disk.
    #[error("cannot write to standard output")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderGone,
            _ => Self::Failed(error),
        }
    }
}

/// Writes a line to standard output at once.
pub(crate) fn line(text: &str) -> Result<(), OutputError> {
    whole(&format!("{text}\n"))
}

/// Writes a text to standard output as it is, at once.
pub(crate) fn whole(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

/// Buffered standard output for long texts; it must be flushed at the end.
pub(crate) fn stream() -> impl Write {
    BufWriter::new(io::stdout().lock())
}

/// Writes a line to standard error. An error is ignored: there is nowhere to report it.
pub(crate) fn complaint(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Writes warnings to standard error, one a line.
pub(crate) fn warnings(warnings: &[String]) {
    for warning in warnings {
        complaint(&format!("warning: {warning}"));
    }
}

/// Writes a text to standard error as it is: a display that replaces the last one.
pub(crate) fn picture(text: &str) {
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// Whether standard error is a terminal, where a display can be redrawn.
pub(crate) fn has_pictures() -> bool {
    io::stderr().is_terminal()
}

/// Whether standard output is read by a person.
pub(crate) fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether standard output takes colour: it is a terminal, and `NO_COLOR` does not forbid it.
pub(crate) fn in_colour() -> bool {
    is_terminal() && colour_is_wanted()
}

/// Whether standard error takes colour, likewise.
pub(crate) fn complaints_in_colour() -> bool {
    has_pictures() && colour_is_wanted()
}
