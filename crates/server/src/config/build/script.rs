//! `[script.NAME]`

use super::Builder;
use crate::config::fields::Fields;
use crate::config::{Script, ScriptAllow, ScriptPlace};

impl Builder<'_> {
    /// `None`: a problem has been noted.
    pub(super) fn script(&mut self, name: &str, fields: &Fields, has_store: bool) -> Option<Script> {
        self.check_name(name, "script", fields);
        let handler = self.existing_file(fields, "handler");
        let allow = self.allow(fields.table("allow"), has_store);
        Some(Script {
            name: name.to_owned(),
            handler: handler?,
            on: match fields.text("on") {
                "io" => ScriptPlace::Io,
                "executor" => ScriptPlace::Executor,
                _ => ScriptPlace::Auto,
            },
            io_input_max: fields.integer("io_input_max"),
            io_cpu_max: fields.duration("io_cpu_max"),
            cpu_max: fields.duration("cpu_max"),
            time_max: fields.duration("time_max"),
            memory_max: fields.integer("memory_max"),
            output_max: fields.integer("output_max"),
            in_flight_max: fields.integer("in_flight_max") as usize,
            queue_bytes_max: fields.integer("queue_bytes_max"),
            executors: match fields.integer("executors") as usize {
                0 => self.surroundings.cores,
                executors => executors,
            },
            engines_max: fields.integer("engines_max") as usize,
            isolated: fields.flag("isolated"),
            fetch_time_max: fields.duration("fetch_time_max"),
            fetch_bytes_max: fields.integer("fetch_bytes_max"),
            fetches_max: fields.integer("fetches_max") as u32,
            allow,
        })
    }

    fn allow(&mut self, fields: &Fields, has_store: bool) -> ScriptAllow {
        let store = fields.texts("store");
        if let (Some(first), false) = (store.first(), has_store) {
            let message = "there is no store: the file has no [store]".to_owned();
            self.note(fields.problem_at(first.line, "store", message));
        }
        let hosts = fields.texts("fetch");
        for host in hosts {
            if !is_host(&host.text) {
                let message = format!(
                    "`{}` is no host: expected a name or address, with a port unless it is 80 or 443, such as `api.example.org`, \
                     `127.0.0.1:9000` or `*.example.com`",
                    host.text
                );
                self.note(fields.problem_at(host.line, "fetch", message));
            }
        }
        ScriptAllow {
            store: store.iter().map(|global| global.text.clone()).collect(),
            fetch: hosts.iter().map(|host| host.text.to_ascii_lowercase()).collect(),
        }
    }
}

/// Whether it can be the host of an address: `*.` before a name, a port after it.
fn is_host(entry: &str) -> bool {
    let entry = entry.strip_prefix("*.").unwrap_or(entry);
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (entry, None),
    };
    let name_is_right = match name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) {
        Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        }
    };
    name_is_right && port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0))
}

#[cfg(test)]
mod tests {
    use super::is_host;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for entry in [
            "a.example",
            "127.0.0.1:9000",
            "*.example.com",
            "[::1]",
            "[::1]:80",
            "localhost:1",
        ] {
            assert!(is_host(entry), "{entry}");
        }
        for entry in [
            "",
            "*",
            "http://a.example",
            "a.example/",
            "a.example:",
            "a:70000",
            "::1",
            "[::1",
            "a b",
            "a:0",
        ] {
            assert!(!is_host(entry), "{entry}");
        }
    }
}
