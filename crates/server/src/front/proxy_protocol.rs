//! The PROXY protocol, versions 1 and 2: what a proxy says about a client in front of the first bytes of a connection.

use std::{io, net::IpAddr};

use proxy_header::{ParseConfig, ProxyHeader};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Bytes that both versions have at least.
const SHORTEST_BYTES: usize = 15;
/// Bytes of version 2 up to its length.
const FIXED_BYTES: usize = 16;
/// Longest header of version 1, by its specification.
const LINE_BYTES_MAX: usize = 107;
/// Longest header of version 2 that is accepted; the specification would allow 64 KiB.
const HEADER_BYTES_MAX: usize = 4096;

/// A client behind a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProxiedClient {
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// Whether it speaks TLS with the proxy.
    pub(super) is_tls: bool,
}

/// Reads the header off a connection, and nothing after it. `None` if the connection is the proxy's own, such as a health check.
pub(crate) async fn read(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<ProxiedClient>> {
    let mut header = vec![0; SHORTEST_BYTES];
    socket.read_exact(&mut header).await?;
    if header.starts_with(b"PROXY") {
        while !header.ends_with(b"\r\n") && header.len() < LINE_BYTES_MAX {
            header.push(socket.read_u8().await?);
        }
    } else {
        header.push(socket.read_u8().await?);
        let length = u16::from_be_bytes([header[FIXED_BYTES - 2], header[FIXED_BYTES - 1]]);
        let length = FIXED_BYTES + usize::from(length);
        if length > HEADER_BYTES_MAX {
            return Err(io::Error::other(format!(
                "it has more than {HEADER_BYTES_MAX} bytes"
            )));
        }
        header.resize(length, 0);
        socket.read_exact(&mut header[FIXED_BYTES..]).await?;
    }
    let (parsed, _) = ProxyHeader::parse(&header, ParseConfig::default())
        .map_err(|error| io::Error::other(error.to_string()))?;
    Ok(parsed.proxied_address().map(|proxied| ProxiedClient {
        address: proxied.source.ip().to_canonical(),
        port: proxied.source.port(),
        is_tls: parsed.ssl().is_some_and(|ssl| ssl.client_ssl()),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_from(bytes: &[u8]) -> Result<(Option<ProxiedClient>, Vec<u8>), String> {
        let mut rest = bytes;
        let client = read(&mut rest).await.map_err(|error| error.to_string())?;
        Ok((client, rest.to_vec()))
    }

    /// A header of version 2 with these fixed bytes after the signature, and this rest.
    fn version_2(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let mut header = b"\r\n\r\n\0\r\nQUIT\n".to_vec();
        header.extend([command, family]);
        header.extend((rest.len() as u16).to_be_bytes());
        header.extend(rest);
        header
    }

    #[tokio::test(flavor = "current_thread")]
    async fn both_versions_are_read_and_not_a_byte_more() {
        let plain = |address: &str| ProxiedClient {
            address: address.parse().unwrap(),
            port: 4660,
            is_tls: false,
        };
        let mut v4 = vec![192, 0, 2, 1, 127, 0, 0, 1, 0x12, 0x34, 0, 80];
        let known = version_2(0x21, 0x11, &v4);
        // PP2_TYPE_SSL with PP2_CLIENT_SSL, not verified.
        v4.extend([0x20, 0, 5, 1, 0, 0, 0, 0]);
        let with_tls = version_2(0x21, 0x11, &v4);
        for (header, client) in [
            (
                b"PROXY TCP4 192.0.2.1 127.0.0.1 4660 80\r\n".to_vec(),
                Some(plain("192.0.2.1")),
            ),
            (
                b"PROXY TCP6 2001:db8::1 ::1 4660 80\r\n".to_vec(),
                Some(plain("2001:db8::1")),
            ),
            (b"PROXY UNKNOWN\r\n".to_vec(), None),
            (known, Some(plain("192.0.2.1"))),
            (
                with_tls,
                Some(ProxiedClient {
                    is_tls: true,
                    ..plain("192.0.2.1")
                }),
            ),
            (version_2(0x20, 0, &[]), None),
        ] {
            let mut sent = header.clone();
            sent.extend(b"GET / HTTP/1.1\r\n");
            assert_eq!(
                read_from(&sent).await,
                Ok((client, b"GET / HTTP/1.1\r\n".to_vec())),
                "{header:?}"
            );
            for length in 0..header.len() {
                assert!(
                    read_from(&header[..length]).await.is_err(),
                    "{length} of {header:?}"
                );
            }
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_no_header_is_refused() {
        for bytes in [
            &b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..],
            b"PROXY TCP4 192.0.2.1 127.0.0.1 4660\r\n\r\n\r\n",
            b"PROXY TCP4 192.0.2.999 127.0.0.1 4660 80\r\n",
            &[b"PROXY TCP4 ".as_slice(), &[b'1'; 200]].concat(),
            &[0x16; 100],
            &version_2(0x21, 0x11, &[1, 2, 3]),
            &version_2(0x21, 0x11, &[0; 5000]),
        ] {
            assert!(read_from(bytes).await.is_err(), "{bytes:?}");
        }
    }
}
