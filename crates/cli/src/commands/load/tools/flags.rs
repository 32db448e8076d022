//! Flags that several tools have under one name or another. Each is made with its names and its help; what it sets is written once.

use super::words::Flag;
use crate::commands::load::values::{header, rate, some_count, some_duration, some_size};

type Names = &'static [&'static str];

pub(super) const fn connections(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "N", help, |options, text| {
        options.connections = Some(some_size(text)?);
        Ok(())
    })
}

pub(super) const fn threads(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "N", help, |options, text| {
        options.threads = Some(some_size(text)?);
        Ok(())
    })
}

pub(super) const fn duration(names: Names, value: &'static str, help: &'static str) -> Flag {
    Flag::value(names, value, help, |options, text| {
        options.duration = Some(some_duration(text)?);
        Ok(())
    })
}

pub(super) const fn count(names: Names, value: &'static str, help: &'static str) -> Flag {
    Flag::value(names, value, help, |options, text| {
        options.count = Some(some_count(text)?);
        Ok(())
    })
}

pub(super) const fn timeout(names: Names, value: &'static str, help: &'static str) -> Flag {
    Flag::value(names, value, help, |options, text| {
        options.timeout = Some(some_duration(text)?);
        Ok(())
    })
}

pub(super) const fn pipeline(names: Names) -> Flag {
    let help = "Most requests under way on a connection; 1 if not given.";
    Flag::value(names, "N", help, |options, text| {
        options.pipeline = Some(some_size(text)?);
        Ok(())
    })
}

pub(super) const fn overall_rate(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "RATE", help, |options, text| {
        options.rate = Some(rate(text)?);
        Ok(())
    })
}

pub(super) const fn method(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "METHOD", help, |options, text| {
        options.method = Some(text.to_owned());
        Ok(())
    })
}

pub(super) const fn headers(names: Names, value: &'static str, help: &'static str) -> Flag {
    Flag::value(names, value, help, |options, text| {
        options.headers.push(header(text)?);
        Ok(())
    })
}

pub(super) const fn body(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "TEXT", help, |options, text| {
        options.body = Some(text.to_owned());
        Ok(())
    })
}

pub(super) const fn body_file(names: Names) -> Flag {
    let help = "A file with the body of every request.";
    Flag::value(names, "FILE", help, |options, text| {
        options.body_file = Some(text.into());
        Ok(())
    })
}

pub(super) const fn certificate(names: Names) -> Flag {
    Flag::value(
        names,
        "FILE",
        "The client's certificate (PEM).",
        |options, text| {
            options.cert = Some(text.into());
            Ok(())
        },
    )
}

pub(super) const fn key(names: Names) -> Flag {
    Flag::value(
        names,
        "FILE",
        "The client's private key (PEM).",
        |options, text| {
            options.key = Some(text.into());
            Ok(())
        },
    )
}

pub(super) const fn authority(names: Names, help: &'static str) -> Flag {
    Flag::value(names, "FILE", help, |options, text| {
        options.cacert = Some(text.into());
        Ok(())
    })
}

pub(super) const fn server_name(names: Names) -> Flag {
    Flag::value(names, "NAME", "The server's name for TLS.", |options, text| {
        options.server_name = Some(text.to_owned());
        Ok(())
    })
}

pub(super) const fn keep_alive(names: Names, help: &'static str) -> Flag {
    Flag::switch(names, help, |options| options.no_keepalive = false)
}

pub(super) const fn quiet(names: Names) -> Flag {
    Flag::switch(names, "No progress.", |options| options.quiet = true)
}

/// Its name for the one that says which version it is.
pub(super) const fn version(names: Names) -> Flag {
    Flag::refused(names, "`forebay version` prints the version")
}

pub(super) const HEADER: &str = "A header, `Name: value`; may be repeated.";
