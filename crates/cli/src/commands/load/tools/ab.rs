//! `ab`: closed connections unless `-k`, one thread, a count.

use std::time::Duration;

use forebay_load::{report::style::ab::Attributes, search::WarmUp, tls};

use super::{Extra, Grammar, Table, flags, one_url, words::Flag};
use crate::commands::load::{arguments::Options, values::some_duration};

/// What `-t` means for the count.
const COUNT_WITH_TIME: u64 = 50_000;

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults: |options| {
        options.connections = Some(1);
        options.count = Some(1);
        options.threads = Some(1);
        options.no_keepalive = true;
        options.http10 = true;
        options.old.same_length = true;
        // It asks no server for its name.
        options.insecure = true;
        options.timeout = Some(Duration::from_secs(30));
        options.warmup = Some(WarmUp::NONE);
    },
    flags: &[
        flags::count(&["-n"], "REQUESTS", "Requests; 1 if not given."),
        flags::connections(&["-c"], "Requests at a time; 1 if not given."),
        Flag::value(
            &["-t"],
            "SECONDS",
            "Longest time; means -n 50000 unless -n follows.",
            |options, text| {
                options.duration = Some(some_duration(text)?);
                options.count = Some(COUNT_WITH_TIME);
                Ok(())
            },
        ),
        flags::timeout(&["-s"], "SECONDS", "Longest wait for an answer; 30 if not given."),
        Flag::switch(&["-k"], "Keep connections open.", |options| {
            options.no_keepalive = false;
        }),
        Flag::value(&["-p"], "FILE", "The body, sent with POST.", |options, text| {
            body(options, text, "POST");
            Ok(())
        }),
        Flag::value(&["-u"], "FILE", "The body, sent with PUT.", |options, text| {
            body(options, text, "PUT");
            Ok(())
        }),
        Flag::value(
            &["-T"],
            "TYPE",
            "Content-Type of the body; text/plain if not given.",
            |options, text| {
                options.headers.push(("Content-Type".to_owned(), text.to_owned()));
                Ok(())
            },
        ),
        Flag::switch(&["-i"], "HEAD instead of GET.", |options| {
            options.method = Some("HEAD".to_owned());
        }),
        flags::method(&["-m"], "The method."),
        flags::headers(&["-H"], "HEADER", flags::HEADER),
        Flag::value(
            &["-C"],
            "NAME=VALUE",
            "A cookie; may be repeated.",
            |options, text| {
                options.cookies.push(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-A"],
            "USER:PASSWORD",
            "Basic authentication.",
            |options, text| {
                options.user = Some(text.to_owned());
                Ok(())
            },
        ),
        flags::quiet(&["-q"]),
        Flag::switch(
            &["-l"],
            "Bodies may differ in length; without it those not as long as the first count as failed.",
            |options| {
                options.old.same_length = false;
                options.old.more.push(Extra::AnyLength);
            },
        ),
        Flag::switch(&["-r"], "Go on after socket errors. It always does here.", |_| {}),
        Flag::switch(&["-d"], "No percentages.", |options| {
            options.old.more.push(Extra::NoPercentages);
        }),
        Flag::switch(&["-S"], "No medians and deviations.", |options| {
            options.old.more.push(Extra::NoDeviations);
        }),
        Flag::value(&["-e"], "FILE", "Write percentages as CSV.", |options, text| {
            options.old.percentages = Some(text.into());
            Ok(())
        }),
        Flag::value(
            &["-g"],
            "FILE",
            "Write latencies as gnuplot reads them.",
            |options, text| {
                options.old.gnuplot = Some(text.into());
                Ok(())
            },
        ),
        Flag::value(
            &["-E"],
            "FILE",
            "The client's certificate and key (PEM).",
            |options, text| {
                options.cert = Some(text.into());
                options.key = Some(text.into());
                Ok(())
            },
        ),
        flags::threads(&["-W"], "Threads; 1 if not given."),
        Flag::value(
            &["-X"],
            "HOST:PORT",
            "Send requests to this proxy, which sends them on.",
            |options, text| {
                options.proxy = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-P"],
            "USER:PASSWORD",
            "Who asks the proxy of -X.",
            |options, text| {
                options.old.proxy_user = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["-B"],
            "ADDRESS",
            "The local address of connections.",
            |options, text| {
                let wrong = |_| format!("found {text:?}, expected an IP address such as 127.0.0.2");
                options.bind = vec![text.parse().map_err(wrong)?];
                Ok(())
            },
        ),
        Flag::value(
            &["-f"],
            "PROTOCOL",
            "The version of TLS: TLS1.2, TLS1.3 or ALL.",
            |options, text| {
                let only = match text.to_ascii_uppercase().as_str() {
                    "TLS1.2" => tls::Version::Tls12,
                    "TLS1.3" => tls::Version::Tls13,
                    "ALL" => return Ok(()),
                    _ => return Err(format!("found {text:?}, expected TLS1.2, TLS1.3 or ALL")),
                };
                (options.tls_min, options.tls_max) = (Some(only), Some(only));
                Ok(())
            },
        ),
        Flag::switch(&["-w"], "The result as HTML tables.", |options| {
            options.old.more.push(Extra::Machine);
        }),
        Flag::value(
            &["-x"],
            "ATTRIBUTES",
            "Attributes of the HTML table; means -w.",
            |options, text| {
                text.clone_into(&mut html(options).table);
                Ok(())
            },
        ),
        Flag::value(
            &["-y"],
            "ATTRIBUTES",
            "Attributes of its rows; means -w.",
            |options, text| {
                text.clone_into(&mut html(options).row);
                Ok(())
            },
        ),
        Flag::value(
            &["-z"],
            "ATTRIBUTES",
            "Attributes of its cells; means -w.",
            |options, text| {
                text.clone_into(&mut html(options).cell);
                Ok(())
            },
        ),
        Flag::value(
            &["-v"],
            "LEVEL",
            "How much is told: from 2 on the request, the first answer's header, and each status that is not 2xx; from 3 on the first \
             answer's status. ab tells of every answer.",
            |options, text| {
                let wrong = |_| format!("found {text:?}, expected a level such as 0 or 4");
                options.old.verbosity = text.trim().parse().map_err(wrong)?;
                Ok(())
            },
        ),
        Flag::refused(&["-b"], "the system sizes its own socket buffers"),
        Flag::value(
            &["-R"],
            "MILLISECONDS",
            "Time between two new connections at the start; none if not given.",
            |options, text| {
                options.old.between_connections = Some(milliseconds(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["-Z"],
            "CIPHERSUITE",
            "The cipher suites of TLS to offer, the preferred first, with colons between, as OpenSSL or as RFCs call them. Without one of TLS 1.3 among them, all of those stay.",
            |options, text| {
                options.tls_ciphers = cipher_suites(text);
                Ok(())
            },
        ),
        Flag::switch(&["-I"], "No name of the server in TLS handshakes.", |options| {
            options.old.nameless = true;
        }),
        flags::version(&["-V"]),
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        if let Some(user) = options.old.proxy_user.take() {
            let Some(proxy) = &mut options.proxy else {
                return Err("-P: there is no proxy to tell it; -X HOST:PORT names one".to_owned());
            };
            proxy.insert_str(0, &format!("{user}@"));
        }
        // Each worker keeps to it on its own.
        options.connect_rate = options
            .old
            .between_connections
            .filter(|time| !time.is_zero())
            .map(|time| options.threads.unwrap_or(1) as f64 / time.as_secs_f64());
        let has_type = options
            .headers
            .iter()
            .any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if options.body_file.is_some() && !has_type {
            options
                .headers
                .push(("Content-Type".to_owned(), "text/plain".to_owned()));
        }
        one_url(options, operands)?;
        // Without TLS they mean nothing, and ab does not mind.
        if !options.url[0].starts_with("https:") {
            options.tls_ciphers.clear();
        }
        Ok(())
    },
};

/// Suites of TLS 1.3, which ab does not choose among.
const NEWEST: [&str; 3] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
];
/// What OpenSSL calls the suites of TLS 1.2 (ciphers(1)) that are supported, and what RFCs 5289 and 7905 call them.
const OPENSSL: [(&str, &str); 6] = [
    (
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
    (
        "ECDHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    ),
    (
        "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    ),
    (
        "ECDHE-RSA-CHACHA20-POLY1305",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    ),
];

/// The names of suites in a list as OpenSSL takes it. Those of TLS 1.3 are added if none is in it; a name that nobody knows stays as
/// it is, for what is said of it then lists those that are known.
fn cipher_suites(text: &str) -> Vec<String> {
    let parts = text.split([':', ',', ' ']).filter(|name| !name.is_empty());
    let named = parts.map(|name| {
        let known = OPENSSL
            .iter()
            .find(|(openssl, _)| openssl.eq_ignore_ascii_case(name));
        known.map_or(name, |(_, common)| common).to_owned()
    });
    let named: Vec<String> = named.collect();
    let chosen = named.iter().any(|name| NEWEST.contains(&name.as_str()));
    let newest = NEWEST.into_iter().filter(|_| !chosen).map(str::to_owned);
    newest.chain(named).collect()
}

/// The attributes of HTML tables, which are then asked for.
fn html(options: &mut Options) -> &mut Attributes {
    options.old.more.push(Extra::Machine);
    options.old.attributes.get_or_insert_default()
}

/// Whole milliseconds, as ab takes them.
fn milliseconds(text: &str) -> Result<Duration, String> {
    let number = text.trim().parse::<u32>();
    let wrong = |_| format!("found {text:?}, expected whole milliseconds such as 10");
    number.map(|ms| Duration::from_millis(ms.into())).map_err(wrong)
}

fn body(options: &mut Options, file: &str, method: &str) {
    options.body_file = Some(file.into());
    options.method = Some(method.to_owned());
}
