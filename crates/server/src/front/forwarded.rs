//! The client behind a proxy: what `X-Forwarded-For` or `Forwarded` says, as far as a proxy is trusted to say it.

use std::net::{IpAddr, SocketAddr};

use super::Head;
use crate::config::{ForwardedField, TrustedProxies};

/// A trusted proxy's statements about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// The address of the client, if it says one.
    pub(crate) client: Option<IpAddr>,
    /// Whether the client speaks TLS with the proxy, if it says so.
    pub(crate) is_tls: Option<bool>,
}

/// Reads what the peer of a connection says; nothing if it is not trusted. `peer` is empty for a Unix socket.
pub(crate) fn forwarded(
    trusted: &TrustedProxies,
    field: ForwardedField,
    peer: &str,
    head: &Head,
) -> Option<Forwarded> {
    if trusted.networks.is_empty() && !trusted.unix || !trusted.contains(peer.parse().ok()) {
        return None;
    }
    let values = |wanted: &'static [u8]| {
        let fields = head.fields().filter(move |(name, _)| *name == wanted);
        fields.flat_map(|(_, value)| value.split(|byte| *byte == b','))
    };
    // For each hop, the address and the protocol of who has sent the request there.
    let hops: Vec<(Option<IpAddr>, Option<&[u8]>)> = match field {
        ForwardedField::XForwardedFor => {
            let clients: Vec<_> = values(b"x-forwarded-for").map(address).collect();
            let protocols: Vec<_> = values(b"x-forwarded-proto").map(<[u8]>::trim_ascii).collect();
            // A proxy that does not add to the list has replaced it.
            let of = |at: usize| {
                if protocols.len() == clients.len() {
                    protocols.get(at)
                } else {
                    protocols.last()
                }
            };
            let hops = clients
                .iter()
                .enumerate()
                .map(|(at, client)| (*client, of(at).copied()));
            let none = protocols
                .last()
                .filter(|_| clients.is_empty())
                .map(|protocol| (None, Some(*protocol)));
            hops.chain(none).collect()
        }
        // It was said before the connection's first request.
        ForwardedField::ProxyProtocol => return None,
        ForwardedField::Forwarded => values(b"forwarded")
            .map(|element| {
                (
                    parameter(element, "for").and_then(address),
                    parameter(element, "proto"),
                )
            })
            .collect(),
    };
    // The last entry is of the nearest proxy; entries before one that is not trusted may be anybody's invention.
    let (mut client, mut protocol) = (None, None);
    for (hop, said) in hops.into_iter().rev() {
        protocol = said.or(protocol);
        let Some(hop) = hop else { break };
        client = Some(hop);
        if !trusted.contains(Some(hop)) {
            break;
        }
    }
    Some(Forwarded {
        client,
        is_tls: protocol.map(|protocol| protocol.eq_ignore_ascii_case(b"https")),
    })
}

/// An address with or without a port, in brackets or quotes.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?.trim().trim_matches('"');
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
        .unwrap_or(text);
    let with_port = || text.parse().ok().map(|address: SocketAddr| address.ip());
    bare.parse()
        .ok()
        .or_else(with_port)
        .map(|address: IpAddr| address.to_canonical())
}

/// A parameter of an element of `Forwarded` (RFC 7239, 4).
fn parameter<'a>(element: &'a [u8], wanted: &str) -> Option<&'a [u8]> {
    element.split(|byte| *byte == b';').find_map(|pair| {
        let at = memchr::memchr(b'=', pair)?;
        let (name, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
        let bare = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        name.eq_ignore_ascii_case(wanted.as_bytes())
            .then_some(bare.unwrap_or(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(field: ForwardedField, peer: &str, lines: &str) -> Option<Forwarded> {
        let trusted = TrustedProxies {
            networks: vec!["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()],
            unix: false,
        };
        let mut head = Head::default();
        let text = format!("GET / HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
        head.parse(text.as_bytes(), 10_000).unwrap();
        forwarded(&trusted, field, peer, &head)
    }

    #[test]
    fn the_client_is_the_nearest_address_that_is_no_trusted_proxy() {
        let client = |peer: &str, lines: &str| {
            let found = read(ForwardedField::XForwardedFor, peer, lines)?;
            Some(found.client.map(|client| client.to_string()).unwrap_or_default())
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            client("10.0.0.1", "x-forwarded-for: 192.0.2.1\r\n"),
            some("192.0.2.1")
        );
        assert_eq!(
            client("10.0.0.1", "x-forwarded-for: 6.6.6.6, 192.0.2.1, 10.2.3.4\r\n"),
            some("192.0.2.1")
        );
        assert_eq!(
            client(
                "10.0.0.1",
                "x-forwarded-for: 6.6.6.6\r\nx-forwarded-for: 192.0.2.1\r\n"
            ),
            some("192.0.2.1")
        );
        assert_eq!(
            client("fd00::1", "x-forwarded-for: [2001:db8::1]:4711\r\n"),
            some("2001:db8::1")
        );
        assert_eq!(
            client("10.0.0.1", "x-forwarded-for: 192.0.2.1, unknown, 10.0.0.9\r\n"),
            some("10.0.0.9")
        );
        assert_eq!(
            client("10.0.0.1", "forwarded: for=192.0.2.1\r\n"),
            some(""),
            "another field"
        );
        assert_eq!(
            client("192.0.2.9", "x-forwarded-for: 192.0.2.1\r\n"),
            None,
            "not trusted"
        );
        assert_eq!(client("", "x-forwarded-for: 192.0.2.1\r\n"), None, "not trusted");
    }

    #[test]
    fn both_fields_say_whether_the_client_speaks_tls() {
        let (x, standard) = (ForwardedField::XForwardedFor, ForwardedField::Forwarded);
        let is_tls = |field, lines: &str| read(field, "10.0.0.1", lines).unwrap().is_tls;
        assert_eq!(is_tls(x, "x-forwarded-proto: https\r\n"), Some(true));
        let two = "x-forwarded-for: 192.0.2.1, 10.0.0.2\r\nx-forwarded-proto: https, http\r\n";
        assert_eq!(is_tls(x, two), Some(true), "the client's");
        assert_eq!(
            is_tls(
                x,
                "x-forwarded-for: 192.0.2.1, 10.0.0.2\r\nx-forwarded-proto: http\r\n"
            ),
            Some(false)
        );
        let two = "forwarded: for=192.0.2.1;proto=\"https\", for=10.0.0.2;proto=http\r\n";
        assert_eq!(is_tls(standard, two), Some(true), "the client's");
        assert_eq!(is_tls(x, ""), None);
        let lines = "forwarded: for=6.6.6.6;proto=http, For=\"[2001:db8:cafe::17]:4711\" ; Proto=HTTPS\r\n";
        let found = read(standard, "10.0.0.1", lines).unwrap();
        assert_eq!(found.client, Some("2001:db8:cafe::17".parse().unwrap()));
        assert_eq!(found.is_tls, Some(true));
    }
}
