//! Which options an agent takes. What is in neither list is refused on both sides: a new option reaches no agent until it is put here, and
//! nothing that reads or writes files or starts commands ever is.

use clap::{ArgMatches, Args as _, Command, FromArgMatches as _, parser::ValueSource};

use crate::{commands::load::arguments::Options, failure::UsageError};

/// What an agent is told as it stands on the controller's command line.
const SENT: [&str; 37] = [
    "url",
    "threads",
    "duration",
    "method",
    "headers",
    "cookies",
    "user",
    "aws_sigv4",
    "body",
    "chunked",
    "follow_redirects",
    "compressed",
    "template",
    "rate_per_connection",
    "arrivals",
    "pipeline",
    "warmup",
    "timeout",
    "connect_timeout",
    "no_keepalive",
    "requests_per_connection",
    "bail",
    "exclude_errors",
    "http2",
    "insecure",
    "tls_min",
    "tls_max",
    "no_tls_resumption",
    "server_name",
    "proxy",
    "dns_each",
    "ipv4",
    "ipv6",
    "expect_status",
    "expect_header",
    "expect_body",
    "expect_json",
];
/// What each agent has its share of.
const SHARED: [&str; 4] = ["connections", "rate", "count", "seed"];
/// What concerns the controller alone.
const KEPT: [&str; 17] = [
    "agents",
    "token",
    "title",
    "quiet",
    "assertions",
    "junit",
    "compare",
    "percentiles",
    "json",
    "csv",
    "html",
    "hgrm",
    "style",
    "save",
    "ndjson",
    "prometheus",
    "explain",
];
/// Most words of an order.
const WORDS_MAX: usize = 5_000;

fn command() -> Command {
    Options::augment_args(Command::new("load").no_binary_name(true))
}

/// The options that stand on a command line, by their names there.
fn given<'a>(command: &'a Command, matches: &'a ArgMatches) -> impl Iterator<Item = &'a clap::Arg> {
    command
        .get_arguments()
        .filter(|argument| matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine))
}

fn is_in(list: &[&str], argument: &clap::Arg) -> bool {
    list.contains(&argument.get_id().as_str())
}

fn shown(argument: &clap::Arg) -> String {
    match argument.get_long() {
        Some(long) => format!("--{long}"),
        None => argument.get_id().to_string(),
    }
}

/// The words that are the same for every agent, of those of the controller's command line.
pub(super) fn sent(words: Vec<std::ffi::OsString>) -> Result<Vec<String>, UsageError> {
    let command = command();
    let matches = command.clone().try_get_matches_from(words);
    let matches = matches.map_err(|error| UsageError(first_line(&error)))?;
    let mut sent = Vec::new();
    for argument in given(&command, &matches) {
        if is_in(&KEPT, argument) || is_in(&SHARED, argument) {
            continue;
        }
        let name = shown(argument);
        if !is_in(&SENT, argument) {
            return Err(UsageError(format!(
                "{name} does not go with --agents: they take no option that reads or writes files, starts something, or makes several runs"
            )));
        }
        if !argument.get_action().takes_values() {
            sent.push(name);
            continue;
        }
        for value in matches.get_raw(argument.get_id().as_str()).into_iter().flatten() {
            let value = value
                .to_str()
                .ok_or_else(|| UsageError(format!("{name}: found text that is not UTF-8")))?;
            sent.push(if argument.is_positional() {
                value.to_owned()
            } else {
                format!("{name}={value}")
            });
        }
    }
    Ok(sent)
}

/// The options of an order, if an agent takes all of them.
pub(super) fn taken(words: &[String]) -> Result<Options, String> {
    if words.len() > WORDS_MAX {
        return Err(format!(
            "the order has {} words, expected at most {WORDS_MAX}",
            words.len()
        ));
    }
    let command = command();
    let matches = command
        .clone()
        .try_get_matches_from(words)
        .map_err(|error| first_line(&error))?;
    let refused =
        given(&command, &matches).find(|argument| !is_in(&SENT, argument) && !is_in(&SHARED, argument));
    if let Some(argument) = refused {
        return Err(format!("an agent does not take {}", shown(argument)));
    }
    let options = Options::from_arg_matches(&matches).map_err(|error| first_line(&error))?;
    Ok(Options {
        quiet: true,
        ..options
    })
}

fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_sent_is_taken_and_means_the_same() {
        let line = "http://h/ -c 9 -d 2s -H A:1 -H B:2 --no-keepalive --expect-status 2xx,304 --json --agents a:1 --token x";
        let sent = sent(words(line).into_iter().map(Into::into).collect()).unwrap();
        assert!(
            !sent
                .iter()
                .any(|word| word.contains("token") || word.contains("connections")),
            "{sent:?}"
        );
        let options = taken(&sent).unwrap();
        assert_eq!(options.url, ["http://h/"]);
        assert_eq!(options.headers.len(), 2);
        assert_eq!(options.expect_status.len(), 2);
        assert!(options.no_keepalive && options.agents.is_empty());
    }

    #[test]
    fn nothing_that_reaches_files_or_commands_is_taken() {
        for line in [
            "h --body-file /etc/passwd",
            "h --body-lines /etc/passwd",
            "h --raw-request /etc/passwd",
            "h --access-log x",
            "h --replay",
            "h --debug",
            "h -F a=@/etc/passwd",
            "h --urls x",
            "h --har x",
            "h --requests x",
            "h --csv-data x --template",
            "h --cacert x",
            "h --cert x --key y",
            "h --unix-socket x",
            "h --json=x",
            "h --save x",
            "h --html x",
            "h --junit x --assert p99<1s",
            "h --vs-cmd x",
            "/ --on-port -- sh",
            "h --server-pid 1",
            "h --allow-remote",
            "h --agents a:1",
        ] {
            let refusal = taken(&words(line)).unwrap_err();
            assert!(refusal.starts_with("an agent does not take"), "{line}: {refusal}");
        }
    }

    #[test]
    fn every_option_that_is_listed_exists() {
        let command = command();
        let known: Vec<&str> = command
            .get_arguments()
            .map(|argument| argument.get_id().as_str())
            .collect();
        for listed in SENT.iter().chain(&SHARED).chain(&KEPT) {
            assert!(known.contains(listed), "{listed}");
        }
    }
}
