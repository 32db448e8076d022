use std::fmt::Write as _;

use clap::ValueEnum;
use serde_json::Value;

use crate::{
    control::{Control, Which},
    output,
};

/// Print what the running server has logged lately
///
/// Lines for people on a terminal, one JSON object a line otherwise. The server keeps its last 1000 events; what its own level
/// leaves out (`log.level`) is not among them.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only events as grave as this. Example: --level warn
    #[arg(long, default_value = "trace")]
    level: Level,
    /// Go on with what is logged from now on, until Ctrl-C. Example: forebay logs --follow
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    which: Which,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let target = format!(
        "/logs?level={}&follow={}",
        arguments.level.name(),
        arguments.follow
    );
    let for_people = output::is_terminal();
    let colour = output::in_colour();
    Control::of(&arguments.which)?.follow(&target, |line| {
        if for_people {
            output::line(&readable(line, colour).unwrap_or_else(|| line.to_owned()))
        } else {
            output::line(line)
        }
    })
}

/// An event of the log as a line for people; `None` when it is no event.
fn readable(line: &str, colour: bool) -> Option<String> {
    let Value::Object(event) = serde_json::from_str(line).ok()? else {
        return None;
    };
    let part = |name: &str| event.get(name).and_then(Value::as_str).unwrap_or_default();
    let level = part("level");
    let (dim, on, off) = if colour {
        ("\x1b[2m", colour_of(level), "\x1b[0m")
    } else {
        ("", "", "")
    };
    let (timestamp, target) = (part("timestamp"), part("target"));
    let mut out = format!("{dim}{timestamp}{off} {on}{level:>5}{off} {dim}{target}:{off} ");
    put_printable(&mut out, part("message"));
    for (name, value) in &event {
        if !matches!(name.as_str(), "timestamp" | "level" | "target" | "message") {
            write!(out, " {dim}{name}={off}").expect("a String takes everything");
            put_printable(
                &mut out,
                &value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            );
        }
    }
    Some(out)
}

/// Handlers log what they like: nothing of it shall move the terminal's cursor or look like another line.
fn put_printable(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\n    "),
            control if control.is_control() => out.extend(control.escape_default()),
            other => out.push(other),
        }
    }
}

fn colour_of(level: &str) -> &'static str {
    match level {
        "ERROR" => "\x1b[31m",
        "WARN" => "\x1b[33m",
        "INFO" => "\x1b[32m",
        _ => "\x1b[34m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_that_cannot_touch_the_terminal() {
        let event = r#"{"timestamp":"T","level":"WARN","target":"forebay::pool","message":"a\u001b[2Jb","pool":"api","pid":7}"#;
        assert_eq!(
            readable(event, false).as_deref(),
            Some(r"T  WARN forebay::pool: a\u{1b}[2Jb pid=7 pool=api")
        );
        assert_eq!(readable("not an event", false), None);
    }
}
