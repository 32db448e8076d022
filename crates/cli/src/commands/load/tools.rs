//! Command lines of other tools, as existing benchmarks print them. Each tool is a table that maps its flags to options of `forebay load`,
//! with its defaults where they differ from ours, so that a line means here what it means there. The report is ours, with the percentiles
//! that the tool prints.

use std::{ffi::OsString, fmt::Write as _};

use clap::Parser as _;

use super::{
    arguments::{Options, ToolOptions},
    values::some_size,
};

/// The command line of a tool.
pub(super) struct Table {
    /// Name of the tool as typed.
    pub(super) name: &'static str,
    /// Operands after the flags, for the help.
    pub(super) operands: &'static str,
    /// Our options that the tool sets unless a flag does.
    defaults: &'static [&'static str],
    flags: &'static [Flag],
}

/// A flag: its names; the name of its value, or nothing for a switch; the options it sets; its help.
///
/// The options are ours: `--x` gets the flag's value, `--x=V` gets V, in which `{}` stands for the value. `!--x` removes a default.
struct Flag(&'static str, &'static str, &'static [&'static str], &'static str);

const HELP: Flag = Flag("-h --help -help", "", &[HELP_ASKED], "Print this list.");
/// Setting of the help flag.
const HELP_ASKED: &str = "help";
/// Settings that only tools have; see [`ToolOptions`].
const HTTP10: &str = "http1.0";
const SAME_LENGTH: &str = "same-length";

const C: &str = "Connections.";
const T: &str = "Threads; 1 if not given.";
const D: &str = "How long.";
const H: &str = "A header; may be repeated.";
const M: &str = "The method; GET if not given, POST with a body.";
const B: &str = "The body of every request.";
const TIMEOUT: &str = "Longest wait for an answer.";

#[rustfmt::skip]
const AUTOCANNON: Table = Table {
    name: "autocannon",
    operands: "URL...",
    defaults: &["--connections=10", "--threads=1", "--warmup=0", "--insecure", "--percentiles=2.5,50,97.5,99"],
    flags: &[
        Flag("-c --connections", "N", &["--connections"], C),
        Flag("-p --pipelining", "N", &["--pipeline"], "Most requests under way on a connection."),
        Flag("-d --duration", "SECONDS", &["--duration"], D),
        Flag("-a --amount", "COUNT", &["--count"], "How many requests, instead of a duration."),
        Flag("-w --workers", "N", &["--threads"], T),
        Flag("-m --method", "METHOD", &["--method"], M),
        Flag("-H --headers", "K=V", &["--header"], H),
        Flag("-b --body", "TEXT", &["--body"], B),
        Flag("-i --input", "FILE", &["--body-file"], "A file with the body."),
        Flag("-t --timeout", "SECONDS", &["--timeout"], TIMEOUT),
        Flag("-R --overallRate", "RATE", &["--rate"], "Requests a second over all connections."),
        Flag("-B --bailout", "COUNT", &["--bail"], "End after so many failures."),
        Flag("-E --expectBody", "TEXT", &["--expect-body=equals:{}"], "What every body must be."),
        Flag("-s --servername", "NAME", &["--server-name"], "The server's name for TLS."),
        Flag("--ca", "FILE", &["--cacert", "!--insecure"], "Certificates to trust; without it any server is."),
        Flag("-T --title", "TEXT", &["--title"], "A name for the run."),
        Flag("-j --json", "", &["--json=-", "--quiet"], "The result as JSON."),
        Flag("-n --no-progress", "", &["--quiet"], "No progress."),
        HELP,
    ],
};

#[rustfmt::skip]
const AB: Table = Table {
    name: "ab",
    operands: "URL",
    defaults: &[
        "--connections=1", "--threads=1", "--warmup=0", "--count=1", "--no-keepalive", "--insecure", "--timeout=30", HTTP10,
        SAME_LENGTH, "--percentiles=50,66,75,80,90,95,98,99,100",
    ],
    flags: &[
        Flag("-n", "REQUESTS", &["--count"], "Requests; 1 if not given."),
        Flag("-c", "N", &["--connections"], C),
        Flag("-t", "SECONDS", &["--duration", "--count=50000"], "Longest time; means -n 50000 unless -n follows."),
        Flag("-s", "SECONDS", &["--timeout"], TIMEOUT),
        Flag("-k", "", &["!--no-keepalive"], "Keep connections open."),
        Flag("-p", "FILE", &["--body-file", "--method=POST"], "The body, sent with POST."),
        Flag("-u", "FILE", &["--body-file", "--method=PUT"], "The body, sent with PUT."),
        Flag("-T", "TYPE", &["--header=Content-Type: {}"], "Content-Type of the body."),
        Flag("-i", "", &["--method=HEAD"], "HEAD instead of GET."),
        Flag("-m", "METHOD", &["--method"], M),
        Flag("-H", "HEADER", &["--header"], H),
        Flag("-A", "USER:PASSWORD", &["--user"], "Basic authentication."),
        Flag("-l", "", &["!same-length"], "Bodies may differ in length; without it those not as long as the first have failed."),
        Flag("-r", "", &[], "Go on after socket errors. It always does here."),
        Flag("-q", "", &["--quiet"], "No progress."),
        HELP,
    ],
};

#[rustfmt::skip]
const HOSE: Table = Table {
    name: "hose",
    operands: "HOST:PORT",
    defaults: &["--connections=1000", "--threads=1", "--warmup=0", "--duration=1", "--no-keepalive"],
    flags: &[
        Flag("-t", "N", &["--threads"], T),
        Flag("-c", "N", &["--connections"], C),
        Flag("-p", "PATH", &["path"], "The path, with or without its first slash."),
        Flag("-d", "SECONDS", &["--duration"], D),
        Flag("-k", "", &["!--no-keepalive"], "Keep connections open."),
        Flag("-b", "N", &["--pipeline"], "Most requests under way on a connection; needs -k."),
        Flag("-m", "RATE", &["--rate"], "Requests a second over all connections."),
        Flag("-a", "HEADER", &["--header"], H),
        Flag("-j", "", &["--json=-", "--quiet"], "The result as JSON."),
        HELP,
    ],
};

#[rustfmt::skip]
const GO_WRK: Table = Table {
    name: "go-wrk",
    operands: "URL",
    defaults: &["--connections=100", "--threads=1", "--warmup=0", "--count=1000"],
    flags: &[
        Flag("-t", "N", &["--threads"], T),
        Flag("-c", "N", &["--connections"], C),
        Flag("-n", "COUNT", &["--count"], "Requests; 1000 if not given."),
        Flag("-m", "METHOD", &["--method"], "The method; a number is the count of requests."),
        Flag("-b", "TEXT", &["--body"], B),
        Flag("-p", "FILE", &["--body-file"], "A file with the body."),
        Flag("-k", "", &["--no-keepalive"], "Close each connection after one answer, as go-wrk's -k=true does."),
        Flag("-H", "HEADER", &["--header"], H),
        Flag("-CA", "FILE", &["--cacert"], "Certificates to trust."),
        Flag("-i", "", &["--insecure"], "Trust any server."),
        Flag("-s", "TEXT", &["--expect-body=~{}"], "What must be in every body; others count as failed."),
        Flag("-r", "", &[], "Read whole bodies. They always are here."),
        HELP,
    ],
};

/// A thread group with one HTTP sampler. Each size is measured for about as long as a person waits for the summary to settle.
#[rustfmt::skip]
const JMETER: Table = Table {
    name: "jmeter",
    operands: "URL",
    defaults: &["--connections=1", "--threads=1", "--warmup=0", "--timeout=60", "--duration=15"],
    flags: &[
        Flag("--threads", "N,...", &["sizes"], "Users, each with a connection; several sizes one after the other."),
        Flag("--ramp-up", "0", &["ramp-up"], "All users start at once."),
        Flag("--loops", "forever", &["loops"], "Until --duration is over."),
        Flag("--duration", "SECONDS", &["--duration"], "How long each size is measured; 15 if not given."),
        Flag("--method", "METHOD", &["--method"], M),
        Flag("--header", "HEADER", &["--header"], H),
        Flag("--body", "TEXT", &["--body"], B),
        Flag("--timeout", "SECONDS", &["--timeout"], TIMEOUT),
        HELP,
    ],
};

pub(super) const TABLES: [&Table; 5] = [&AUTOCANNON, &AB, &HOSE, &GO_WRK, &JMETER];

/// Most sizes of one run.
const SIZES_MAX: usize = 100;

/// Our own options alone.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct Own {
    #[command(flatten)]
    options: Options,
}

/// A parsed command line of a tool.
#[derive(Debug)]
pub(crate) enum Line {
    /// Options of a run.
    Run(Box<Options>),
    /// Text of the tool's help.
    Help(String),
}

/// Settings collected from a command line.
#[derive(Default)]
struct Settings {
    /// Our options with their values.
    options: Vec<(String, Option<String>)>,
    of_tool: ToolOptions,
    path: String,
    operands: Vec<String>,
}

impl Settings {
    /// Applies one setting of a flag.
    fn set(&mut self, setting: &str, value: Option<&str>) -> Result<(), String> {
        let (name, value) = match setting.split_once('=') {
            Some((name, template)) => (name, Some(template.replace("{}", value.unwrap_or_default()))),
            None => (setting, value.map(str::to_owned)),
        };
        let given = value.as_deref().unwrap_or_default();
        match name {
            HTTP10 => self.of_tool.http10 = true,
            SAME_LENGTH => self.of_tool.same_length = true,
            "!same-length" => self.of_tool.same_length = false,
            "path" => given.trim_start_matches('/').clone_into(&mut self.path),
            "sizes" => {
                let sizes = given.split(',').map(|size| some_size(size.trim()));
                self.of_tool.sizes = sizes.collect::<Result<_, _>>()?;
                if self.of_tool.sizes.len() > SIZES_MAX {
                    let found = self.of_tool.sizes.len();
                    return Err(format!("found {found} sizes, expected at most {SIZES_MAX}"));
                }
            }
            "ramp-up" if given != "0" => {
                return Err(format!("found {given:?}, expected 0; `--stage` has rises"));
            }
            "loops" if given != "forever" => {
                return Err(format!("found {given:?}, expected forever; `-n` counts requests"));
            }
            "ramp-up" | "loops" => {}
            _ => {
                let kept = name.trim_start_matches('!');
                if name != "--header" {
                    self.options.retain(|(known, _)| known != kept);
                }
                if kept == name {
                    self.options.push((name.to_owned(), value));
                }
            }
        }
        Ok(())
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(known, _)| known == name)
    }
}

impl Table {
    /// Parses the tool's command line, without its name.
    pub(crate) fn read(&self, words: &[OsString]) -> Result<Line, String> {
        let mut settings = Settings::default();
        for setting in self.defaults {
            settings.set(setting, None)?;
        }
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let Some(text) = word.to_str() else {
                return Err(format!("found {}, which is not UTF-8", word.display()));
            };
            if !text.starts_with('-') || text == "-" {
                settings.operands.push(text.to_owned());
                continue;
            }
            let mut following = || words.next().and_then(|word| word.to_str()).map(str::to_owned);
            if !self.flag(text, &mut following, &mut settings)? {
                return Ok(Line::Help(self.help()));
            }
        }
        self.finish(settings).map(|options| Line::Run(Box::new(options)))
    }

    /// Parses a flag, whose value stands behind `=` or in the next word. False: help was asked for.
    fn flag(
        &self,
        text: &str,
        following: &mut dyn FnMut() -> Option<String>,
        settings: &mut Settings,
    ) -> Result<bool, String> {
        let (name, inline) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let Flag(_, value_name, sets, _) = self.find(name)?;
        if sets.first() == Some(&HELP_ASKED) {
            return Ok(false);
        }
        let value = match inline.or_else(|| if value_name.is_empty() { None } else { following() }) {
            None if value_name.is_empty() => None,
            None => return Err(format!("{name}: its {value_name} is missing")),
            Some(value) if !value_name.is_empty() => Some(value),
            // Go's switches take a value behind `=`.
            Some(value) if value == "true" => None,
            Some(value) if value == "false" => return Ok(true),
            Some(value) => return Err(format!("{name}: found {value:?}, expected true or false")),
        };
        self.apply(name, sets, value.as_deref(), settings)
            .map_err(|wrong| format!("{name}: {wrong}"))?;
        Ok(true)
    }

    fn apply(
        &self,
        name: &str,
        sets: &[&str],
        value: Option<&str>,
        settings: &mut Settings,
    ) -> Result<(), String> {
        let value = value.unwrap_or_default();
        match (self.name, name) {
            // Its -m is the method, but a widely copied document uses it for the count.
            ("go-wrk", "-m") if value.parse::<u64>().is_ok() => {
                settings.of_tool.notes.push(format!(
                    "go-wrk itself takes -m as the method: it would send 1000 requests with the method {value}. Here -m {value} is the \
                     number of requests; go-wrk's own flag for it is -n {value}"
                ));
                settings.set("--count", Some(value))
            }
            ("go-wrk", "-H") => {
                let lines = value.split('\n').flat_map(|line| line.split("\\n"));
                let mut lines = lines.filter(|line| !line.is_empty());
                lines.try_for_each(|line| settings.set("--header", Some(line)))
            }
            _ => sets
                .iter()
                .try_for_each(|setting| settings.set(setting, (!value.is_empty()).then_some(value))),
        }
    }

    /// Turns the settings into options.
    fn finish(&self, mut settings: Settings) -> Result<Options, String> {
        let missing = || {
            format!(
                "{} is missing",
                self.operands.split("...").next().unwrap_or_default()
            )
        };
        match (self.name, settings.operands.as_slice()) {
            (_, []) => return Err(missing()),
            ("autocannon", _) | (_, [_]) => {}
            (_, [_, other, ..]) => return Err(format!("found {other:?}, expected nothing more")),
        }
        let header = |(name, value): &(String, Option<String>)| {
            name == "--header"
                && value
                    .as_ref()
                    .is_some_and(|value| value.to_lowercase().starts_with("content-type"))
        };
        if self.name == "ab" && settings.has("--body-file") && !settings.options.iter().any(header) {
            settings.set("--header", Some("Content-Type: text/plain"))?;
        }
        if self.name == "hose" {
            let host = settings.operands[0]
                .trim_start_matches("http://")
                .trim_end_matches('/');
            settings.operands = vec![format!("http://{host}/{}", settings.path)];
        }
        let options = settings.options.into_iter().map(|(name, value)| match value {
            Some(value) => format!("{name}={value}"),
            None => name,
        });
        let own = Own::try_parse_from(options.chain(settings.operands)).map_err(|error| {
            let text = error.to_string();
            text.lines()
                .next()
                .unwrap_or_default()
                .trim_start_matches("error: ")
                .to_owned()
        })?;
        let mut options = own.options;
        options.of_tool = settings.of_tool;
        // The tools accept more threads than connections; the surplus would do nothing.
        options.threads = options.threads.min(options.connections);
        Ok(options)
    }

    fn find(&self, name: &str) -> Result<&Flag, String> {
        let flag = self
            .flags
            .iter()
            .find(|flag| flag.0.split(' ').any(|known| known == name));
        flag.ok_or_else(|| format!("{name}: no such flag; --help lists what is understood"))
    }

    /// The tool's help.
    fn help(&self) -> String {
        let mut text = format!("Usage: forebay load {} [flags] {}\n\n", self.name, self.operands);
        for (flag, meaning) in self.meanings() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "  {flag:<34} {meaning}");
        }
        text
    }

    /// Each flag as it is written, with its help.
    pub(super) fn meanings(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.flags.iter().map(|Flag(names, value, _, help)| {
            let text = format!("{} {value}", names.replace(' ', ", "));
            (text.trim_end().to_owned(), *help)
        })
    }
}

#[cfg(test)]
mod tests;
