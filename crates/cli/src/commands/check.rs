mod findings;

use std::{cell::RefCell, collections::BTreeMap};

use forebay_server::config::{Config, Environment, Target, Worker};

use self::findings::Findings;
use crate::{arguments::Served, commands::strip::PARSER, output};

/// Values of the environment shorter than this are printed as they are: they are no secrets, and occur everywhere.
const SECRET_BYTES_MIN: usize = 4;
/// Stand around a variable's name until the text is TOML. Unicode keeps these two out of texts (noncharacters).
const OPEN: char = '\u{fdd0}';
const CLOSE: char = '\u{fdd1}';

/// Check the configuration, its scripts and its handlers, and print the effective configuration: every key with its value
///
/// Scripts are loaded, each within its `time_max`. Handlers of Node and Bun are parsed; pools are not started, and the store is not opened. Statements of routes are prepared by their databases, not run; a database that
/// cannot be reached is named. The confinement of workers is tried out. Errors name their file and line; the exit code is then 3.
///
/// The output is a valid configuration, once hashes of passwords and API keys are put in again: they are printed as ***. In `env`, `command`, headers and bodies, a value from the environment is printed as its
/// ${NAME}, so that secrets are not printed.
///
/// With `--json` the output is {"problems": [...]}. Each has `severity` (error, warning, note) and `message`, and where they are known `file`, `line`, `column`, `end_column` (from 1, in characters; the end is exclusive), the
/// `key`, the `node` of a workflow, and the `suggestion` of a name in place of the misspelt one.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    served: Served,

    /// Fail when a database cannot be reached to check the statements of routes. Example: forebay check --require-databases
    #[arg(long)]
    require_databases: bool,

    /// Print the problems as one JSON object for programs, instead of the configuration. Example: forebay check --json | jq '.problems[].message'
    #[arg(long)]
    json: bool,

    /// Print the JSON Schema of the configuration, with which editors explain and complete its keys, and check nothing. Example: forebay check --schema > forebay.schema.json
    #[arg(long, conflicts_with_all = ["json", "require_databases"])]
    schema: bool,
}

pub(crate) fn run(arguments: &CheckArgs) -> anyhow::Result<()> {
    if arguments.schema {
        return Ok(output::whole(&forebay_server::config::schema())?);
    }
    let real = Environment::current();
    let asked = RefCell::new(BTreeMap::new());
    let env = |name: &str| {
        let value = (real.env)(name)?;
        asked.borrow_mut().insert(value.clone(), name.to_owned());
        Some(value)
    };
    let mut findings = Findings::default();
    let config = findings.keep(arguments.served.load_in(&Environment { env: &env, ..real }));
    if let Some(config) = &config {
        check(config, arguments, &mut findings)?;
    }
    if arguments.json {
        output::line(&findings.to_json())?;
    } else {
        for text in &findings.remarks {
            output::complaint(text);
        }
    }
    match (findings.error, config) {
        (Some(error), _) => Err(error),
        (None, Some(mut config)) if !arguments.json => {
            Secrets(asked.into_inner()).mask(&mut config);
            let printed = config.to_toml().replace(OPEN, "${").replace(CLOSE, "}");
            Ok(output::whole(&printed)?)
        }
        _ => Ok(()),
    }
}

/// Checks what a configuration refers to. A step that fails does not keep the others from being taken.
fn check(config: &Config, arguments: &CheckArgs, findings: &mut Findings) -> anyhow::Result<()> {
    findings.keep(forebay_server::check_certificates(config));
    findings.keep(forebay_server::check_keys(config));
    findings.keep(forebay_server::check_body_schemas(config));
    for name in findings
        .keep(forebay_server::check_scripts(config, PARSER))
        .unwrap_or_default()
    {
        findings.note(&format!(
            "script `{name}` asks for the store while it is loaded; what it does from there on is not checked"
        ));
    }
    findings.keep(forebay_server::check_handlers(config, PARSER, |_| true));
    for warning in findings
        .keep(forebay_server::check_workflows(config, PARSER))
        .unwrap_or_default()
    {
        findings.remark("warning", &warning);
    }
    if config
        .workflow
        .as_ref()
        .is_some_and(|workflow| workflow.folder().is_none())
    {
        findings.note(
            "the workflows are in the store, which is not opened; `forebay workflow check` checks them",
        );
    }
    check_statements(config, arguments.require_databases, findings)?;
    check_confinements(config, findings);
    Ok(())
}

/// Says which keys of `[pool.NAME.confine]` this machine grants, and what to do about the others.
fn check_confinements(config: &Config, findings: &mut Findings) {
    for checked in forebay_server::check_confinements(config) {
        let pool = checked.pool;
        let granted = checked.keys.iter().filter(|(_, outcome)| outcome.is_ok());
        let granted: Vec<&str> = granted.map(|(key, _)| *key).collect();
        if !granted.is_empty() {
            let granted = granted.join(", ");
            findings.note(&format!("pool.{pool}.confine: this machine grants {granted}"));
        }
        for refused in checked
            .keys
            .iter()
            .filter_map(|(_, outcome)| outcome.as_ref().err())
        {
            findings.note(&format!(
                "pool.{pool}.{refused}; `serve` does not start here under this user"
            ));
        }
    }
}

/// Has the databases check the statements of routes.
fn check_statements(config: &Config, must_be_reached: bool, findings: &mut Findings) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let checked = runtime.block_on(forebay_server::check_statements(config));
    let unreached: Vec<String> = checked
        .unreached
        .iter()
        .map(|(name, reason)| format!("the statements on database `{name}` are not checked: {reason}"))
        .collect();
    findings.keep(checked.verdict());
    if must_be_reached && !unreached.is_empty() {
        findings.keep::<()>(Err(Unreached(unreached.join("\n"))));
    } else {
        for note in &unreached {
            findings.note(note);
        }
    }
    Ok(())
}

/// Databases that were required to be reachable and are not.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unreached(String);

/// Values of environment variables that the configuration uses, with their names.
struct Secrets(BTreeMap<String, String>);

impl Secrets {
    /// Replaces the values of variables by their names, wherever the author of the configuration may write free text.
    fn mask(&self, config: &mut Config) {
        for pool in config.pools.values_mut() {
            for value in pool.env.values_mut() {
                *value = self.masked(value);
            }
            if let Worker::Command { command, .. } = &mut pool.worker {
                for word in command {
                    *word = self.masked(word);
                }
            }
        }
        for policy in config.policies.values_mut() {
            self.mask_headers(&mut policy.headers);
            self.mask_headers(&mut policy.request_headers.0);
        }
        for route in &mut config.routes {
            self.mask_headers(&mut route.headers);
            if let Target::Respond(respond) = &mut route.target {
                self.mask_headers(&mut respond.headers);
                if respond.file.is_none() {
                    respond.body = self.masked(&String::from_utf8_lossy(&respond.body)).into_bytes();
                }
            }
        }
    }

    fn mask_headers(&self, headers: &mut [(String, String)]) {
        for (_, value) in headers {
            *value = self.masked(value);
        }
    }

    fn masked(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let found = self
                .0
                .iter()
                .filter(|(value, _)| value.len() >= SECRET_BYTES_MIN && rest.starts_with(*value));
            if let Some((value, name)) = found.max_by_key(|(value, _)| value.len()) {
                out.push(OPEN);
                out.push_str(name);
                out.push(CLOSE);
                rest = &rest[value.len()..];
            } else {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_value_is_masked_and_short_ones_stay() {
        let secrets = [("token", "A"), ("token-two", "B"), ("abc", "C")];
        let secrets = Secrets(
            secrets
                .map(|(value, name)| (value.to_owned(), name.to_owned()))
                .into(),
        );
        let shown = |text| secrets.masked(text).replace(OPEN, "<").replace(CLOSE, ">");
        assert_eq!(shown("Bearer token-two, token-three"), "Bearer <B>, <A>-three");
        assert_eq!(shown("abc é"), "abc é");
    }
}
