//! Ranges of IP addresses, as `10.0.0.0/8`.

use std::{fmt, net::IpAddr, str::FromStr};

use crate::build::Context;
use crate::key::{Key, Kind, at_least};
use crate::print::{Table, texts};
use crate::section::{Entry, Setting};
use crate::setting::parsed;

/// The addresses that share their first bits with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found {text:?}, expected an IP address such as \"192.0.2.7\", or a range such as \"10.0.0.0/8\" or \"fd00::/8\""
)]
pub struct NetworkError {
    text: String,
}

impl Network {
    /// Whether an address is one of them. An IPv4 address that arrives in IPv6 is the same.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let shift = 32 - u32::from(self.bits);
                shift == 32 || own.to_bits() >> shift == other.to_bits() >> shift
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let shift = 128 - u32::from(self.bits);
                shift == 128 || own.to_bits() >> shift == other.to_bits() >> shift
            }
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let error = || NetworkError {
            text: text.to_owned(),
        };
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| error())?;
        // As IPv4 in IPv6, which is compared as IPv4, it would contain nothing.
        if address.to_canonical() != address {
            return Err(error());
        }
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most).ok_or_else(error)?,
            None => most,
        };
        Ok(Self { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

parsed!("": Network);

/// The word for proxies that come by Unix sockets.
const UNIX: &str = "unix";

/// Proxies that are believed what they say about clients.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TrustedProxies {
    /// Their addresses.
    pub networks: Vec<Network>,
    /// Whether those that come by Unix sockets are among them.
    pub unix: bool,
}

impl TrustedProxies {
    /// Whether this address is one of theirs; `None` is a Unix socket.
    pub fn contains(&self, address: Option<IpAddr>) -> bool {
        match address {
            None => self.unix,
            Some(address) => self.networks.iter().any(|network| network.contains(address)),
        }
    }
}

impl Setting for TrustedProxies {
    const KIND: Kind = at_least(0);

    fn read<'f>(entry: Entry<'f>, context: &mut Context<'f>) -> Option<Self> {
        let mut proxies = Self::default();
        for written in entry.texts(context)? {
            match (&*written.text, written.text.parse()) {
                (UNIX, _) => proxies.unix = true,
                (_, Ok(network)) => proxies.networks.push(network),
                (_, Err(error)) => {
                    let error: NetworkError = error;
                    entry.note(context, written.line, format!("{error}, or \"{UNIX}\""));
                }
            }
        }
        Some(proxies)
    }

    fn print(&self, key: &Key, out: &mut Table) {
        let networks = self.networks.iter().map(ToString::to_string);
        out.put(
            key.name,
            &texts(networks.chain(self.unix.then(|| UNIX.to_owned()))),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_the_addresses_that_begin_alike() {
        for (range, inside, outside) in [
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.1.2.3/8", "10.0.0.1", "9.255.255.255"),
            ("192.0.2.7", "192.0.2.7", "192.0.2.8"),
            ("192.0.2.7", "::ffff:192.0.2.7", "::1"),
            ("fd00::/8", "fdff::1", "fe00::1"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "fe00::1", "127.0.0.1"),
        ] {
            let network: Network = range.parse().unwrap();
            assert!(network.contains(inside.parse().unwrap()), "{range} {inside}");
            assert!(!network.contains(outside.parse().unwrap()), "{range} {outside}");
        }
        for wrong in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "localhost",
            "10.0.0.0/-1",
            "10.0.0.0/",
            "::ffff:10.0.0.0/104",
        ] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
