//! `forebay load serve`: a server to aim at.

use std::{net::SocketAddr, path::PathBuf};

use anyhow::Context as _;
use forebay_load::{
    serve::{Options, Server},
    target::Address,
};

use super::{interrupt::Interrupt, values};
use crate::{failure::UsageError, output};

/// Serve answers to measure with: at once, late, long, wrong or never, as the path says
///
/// A server to learn what the generator and the machine can do, and what failures look like. Paths: / (13 bytes), /bytes/N, /chunked/N,
/// /status/N, /echo, /delay/MS, /delay/dist?p50=MS&p99=MS, /stall?for=MS&every=MS, /close, /fault/NAME, /stats, /reset. Ctrl-C ends it and
/// prints what it has counted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where to listen: a port, HOST:PORT, or unix:FILE. Port 0 is any free one. Example: --listen 127.0.0.1:9000
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: String,
    /// Threads, 1 to 64. Example: --threads 2
    #[arg(short = 't', long, value_name = "N", default_value = "1", value_parser = values::some_size)]
    threads: usize,
    /// Seed of everything random. Example: --seed 7
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let address = address(&arguments.listen)?;
    if !address.is_local() || is_everywhere(&address) {
        let text = format!(
            "--listen: {address} can be reached from other machines; this server is for this one only"
        );
        return Err(UsageError(text).into());
    }
    let interrupt = Interrupt::listen()?;
    let server = Server::start(&Options {
        address,
        threads: arguments.threads,
        seed: arguments.seed,
    })
    .context("the server does not start")?;
    let shown = match server.address() {
        Address::Tcp(address) => format!("http://{address}"),
        Address::Unix(file) => format!("unix:{}", file.display()),
    };
    match output::line(&format!("forebay load serve is listening on {shown}")) {
        // It serves whether or not somebody reads it.
        Ok(()) | Err(output::OutputError::ReaderGone) => {}
        Err(error) => return Err(error.into()),
    }
    interrupt.wait();
    Ok(output::line(&server.stop().to_json().to_string())?)
}

pub(crate) fn address(text: &str) -> Result<Address, UsageError> {
    if let Some(file) = text.strip_prefix("unix:").filter(|file| !file.is_empty()) {
        return Ok(Address::Unix(PathBuf::from(file)));
    }
    let address = match text.parse::<u16>() {
        Ok(port) => Ok(SocketAddr::from(([127, 0, 0, 1], port))),
        Err(_) => text.replace("localhost", "127.0.0.1").parse(),
    };
    let wrong = |_| {
        UsageError(format!(
            "--listen: found {text:?}, expected a port, an address such as 127.0.0.1:9000, or unix:FILE"
        ))
    };
    address.map(Address::Tcp).map_err(wrong)
}

fn is_everywhere(address: &Address) -> bool {
    matches!(address, Address::Tcp(address) if address.ip().is_unspecified())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_in_their_forms() {
        for (text, shown) in [
            ("9000", "127.0.0.1:9000"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("localhost:80", "127.0.0.1:80"),
            ("[::1]:80", "[::1]:80"),
            ("unix:web.sock", "web.sock"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), shown);
        }
        for text in ["", "host", "70000", "unix:"] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
