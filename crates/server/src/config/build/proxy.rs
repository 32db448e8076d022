//! `[proxy.NAME]`, and routes to it

use std::collections::BTreeMap;

use forebay_upstream::{Balance, HealthCheck, Settings};

use super::{Builder, is_header_value, pool, route::none_such};
use crate::{
    config::{Proxy, ProxyRoute, fields::Fields},
    router::Pattern,
};

/// Most servers of a group.
const SERVERS_MAX: usize = 64;

impl Builder<'_> {
    pub(super) fn proxy(&mut self, name: &str, fields: &Fields) -> Proxy {
        self.check_name(name, "proxy", fields);
        let mut servers = Vec::new();
        for server in fields.texts("servers") {
            match server.text.parse::<forebay_upstream::Address>() {
                Ok(mut address) => {
                    if let forebay_upstream::Transport::Unix(path) = &mut address.transport {
                        *path = self.resolve(fields, &path);
                    }
                    servers.push(address);
                }
                Err(error) => self.note(fields.problem_at(server.line, "servers", error.to_string())),
            }
        }
        if servers.len() > SERVERS_MAX {
            let message = format!("found {} servers, expected at most {SERVERS_MAX}", servers.len());
            self.note(fields.problem("servers", message));
        }
        let host = fields.opt_text("host").map(str::to_owned);
        if let Some(host) = host
            .as_ref()
            .filter(|host| host.is_empty() || !is_header_value(host))
        {
            self.note(fields.problem(
                "host",
                format!("found {host:?}, expected a host such as \"app.example\""),
            ));
        }
        let check = fields.opt_table("check").map(|check| HealthCheck {
            path: self.request_path(check, "path").unwrap_or_default(),
            interval: check.duration("interval"),
            timeout: check.duration("timeout"),
        });
        Proxy {
            settings: Settings {
                name: name.to_owned(),
                servers,
                balance: match fields.text("balance") {
                    "client" => Balance::Client,
                    "path" => Balance::Path,
                    _ => Balance::LeastInFlight,
                },
                authorities: self.existing_file(fields, "ca"),
                connect_timeout: fields.duration("connect_timeout"),
                read_timeout: fields.duration("read_timeout"),
                idle_timeout: fields.duration("idle_timeout"),
                idle_max: fields.integer("idle_max") as usize,
                in_flight_max: fields.integer("in_flight_max") as usize,
                fails_max: fields.integer("fails_max") as u32,
                fail_timeout: fields.duration("fail_timeout"),
                check,
            },
            host,
            tunnel_timeout: fields.duration("tunnel_timeout"),
            retry: pool::retry(fields.text("retry")),
        }
    }

    pub(super) fn proxy_route(
        &mut self,
        fields: &Fields,
        proxies: &BTreeMap<String, Proxy>,
        declared: &[&str],
    ) -> Option<ProxyRoute> {
        let name = fields.text("proxy");
        if !declared.contains(&name) {
            self.note(fields.problem("proxy", none_such("proxy", name, declared)));
        }
        let has_rest = Pattern::parse(fields.text("path")).is_ok_and(|pattern| pattern.ends_with_rest());
        if fields.written("upstream_path") && !has_rest {
            let message =
                "only a route whose path ends with `/*` has it: it stands for what comes before the `*`";
            self.note(fields.problem("upstream_path", message.to_owned()));
        }
        let upstream_path = self.request_path(fields, "upstream_path");
        proxies.get(name).map(|_| ProxyRoute {
            proxy: name.to_owned(),
            upstream_path,
        })
    }

    /// A path as it is sent to a server, if the key is written.
    fn request_path(&mut self, fields: &Fields, key: &str) -> Option<String> {
        let path = fields.opt_text(key)?;
        let is_path = path.starts_with('/') && path.parse::<http::uri::PathAndQuery>().is_ok();
        if !is_path || path.contains('#') {
            self.note(fields.problem(
                key,
                format!("found {path:?}, expected a path such as \"/health\""),
            ));
        }
        Some(path.to_owned())
    }
}
