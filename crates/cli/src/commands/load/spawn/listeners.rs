//! Finds the listening sockets of processes in `/proc`.

use std::{
    fs,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// The state of a listening socket in `/proc/net/tcp` (the kernel's `TCP_LISTEN`).
const LISTENING: &str = "0A";

/// The addresses at which these processes can be reached, in the order in which they were opened.
pub(super) fn listeners(proc: &Path, processes: &[i32]) -> Vec<SocketAddr> {
    let sockets: Vec<u64> = processes
        .iter()
        .flat_map(|pid| sockets_of(&proc.join(pid.to_string())))
        .collect();
    let mut found = Vec::new();
    for (table, v6) in [("net/tcp", false), ("net/tcp6", true)] {
        let table = fs::read_to_string(proc.join(table)).unwrap_or_default();
        found.extend(
            table
                .lines()
                .skip(1)
                .filter_map(|line| listener(line, v6, &sockets)),
        );
    }
    // Inodes of sockets increase with time.
    found.sort_unstable();
    let mut addresses: Vec<SocketAddr> = Vec::new();
    for (_, address) in found {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    addresses
}

/// The inodes of a process's sockets.
fn sockets_of(process: &Path) -> Vec<u64> {
    let files = fs::read_dir(process.join("fd")).into_iter().flatten();
    let inode = |file: fs::DirEntry| {
        let target = fs::read_link(file.path()).ok()?;
        let inode = target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?;
        inode.parse().ok()
    };
    files.flatten().filter_map(inode).collect()
}

/// Inode and address of a line of `/proc/net/tcp`, if it is a listener among these sockets.
fn listener(line: &str, v6: bool, sockets: &[u64]) -> Option<(u64, SocketAddr)> {
    let mut fields = line.split_whitespace().skip(1);
    let (address, state) = (fields.next()?, fields.nth(1)?);
    let inode: u64 = fields.nth(5)?.parse().ok()?;
    if state != LISTENING || !sockets.contains(&inode) {
        return None;
    }
    let (ip, port) = address.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let ip = match ip_of(ip, v6)? {
        // A listener on all addresses is reached through the loopback, as a rule also one of the other family.
        ip if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    Some((inode, SocketAddr::new(ip, port)))
}

/// Decodes an address of the table: words of 32 bits, each in the byte order of the machine.
fn ip_of(hex: &str, v6: bool) -> Option<IpAddr> {
    let mut bytes = Vec::with_capacity(16);
    for at in (0..hex.len()).step_by(8) {
        let word = u32::from_str_radix(hex.get(at..at + 8)?, 16).ok()?;
        bytes.extend_from_slice(&word.to_ne_bytes());
    }
    if v6 {
        Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical())
    } else {
        Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(local: &str, state: &str, inode: u64) -> String {
        format!(
            "   0: {local} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000     0        0 {inode} 1 0 100 0 0 10 0"
        )
    }

    /// An address as the table shows it on a machine with this byte order.
    fn word(bytes: [u8; 4]) -> String {
        format!("{:08X}", u32::from_ne_bytes(bytes))
    }

    #[test]
    fn a_listener_is_found_by_its_socket() {
        let here = format!("{}:1F90", word([127, 0, 0, 1]));
        let found = |line: &str, v6| listener(line, v6, &[4711]).map(|(_, address)| address.to_string());
        assert_eq!(
            found(&line(&here, "0A", 4711), false).as_deref(),
            Some("127.0.0.1:8080")
        );
        assert_eq!(found(&line(&here, "01", 4711), false), None, "it is connected");
        assert_eq!(found(&line(&here, "0A", 4712), false), None, "it is another's");
        let other = format!("{}:0050", word([127, 0, 0, 9]));
        assert_eq!(
            found(&line(&other, "0A", 4711), false).as_deref(),
            Some("127.0.0.9:80")
        );
        let any = format!("{}:0050", "0".repeat(32));
        assert_eq!(
            found(&line(&any, "0A", 4711), true).as_deref(),
            Some("127.0.0.1:80")
        );
        let loopback = format!("{}{}:0050", "0".repeat(24), word([0, 0, 0, 1]));
        assert_eq!(
            found(&line(&loopback, "0A", 4711), true).as_deref(),
            Some("[::1]:80")
        );
        assert_eq!(found("garbage", false), None);
    }

    #[test]
    fn the_listeners_of_this_very_process_are_found_in_their_order() {
        let bound = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let addresses = bound.each_ref().map(|listener| listener.local_addr().unwrap());
        let found = listeners(Path::new("/proc"), &[std::process::id().cast_signed()]);
        let ours: Vec<_> = found
            .into_iter()
            .filter(|found| addresses.contains(found))
            .collect();
        assert_eq!(ours, addresses);
    }
}
