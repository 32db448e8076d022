use clap::ValueEnum;
use forebay_server::logging;

use crate::{
    control::{Control, Which, put_encoded},
    output,
};

/// Print what the running server has logged lately
///
/// Lines for people on a terminal, one JSON object a line otherwise. The server keeps its last 1000 events; what its own level
/// leaves out (`log.level`) is not among them.
#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The lowest level to print. Example: --level warn
    #[arg(long, default_value = "trace")]
    level: Level,
    /// Only this workflow: the log of its rules, and why runs failed. Example: --workflow order
    #[arg(long)]
    workflow: Option<String>,
    /// Keep printing new events until Ctrl-C. Example: forebay logs --follow
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

pub(crate) fn run(arguments: &LogsArgs) -> anyhow::Result<()> {
    let mut target = format!(
        "/logs?level={}&follow={}",
        arguments.level.name(),
        arguments.follow
    );
    if let Some(workflow) = &arguments.workflow {
        target.push_str("&workflow=");
        put_encoded(workflow, &mut target);
    }
    let for_people = output::is_terminal();
    let colour = output::in_colour();
    Control::of(&arguments.which)?.follow(&target, |line| {
        if for_people {
            output::line(&logging::readable(line, colour).unwrap_or_else(|| line.to_owned()))
        } else {
            output::line(line)
        }
    })
}
