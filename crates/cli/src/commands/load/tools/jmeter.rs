//! A thread group of `JMeter` with one HTTP sampler: so many users, one after the other in several sizes.

use forebay_load::search::WarmUp;

use super::{Grammar, Table, one_url, words::Flag};
use crate::commands::load::values::{duration, header, some_count, some_duration, some_size};

/// How long a size is measured when nothing says so: about as long as a person waits for the summary to settle.
const STEP: std::time::Duration = std::time::Duration::from_secs(15);
/// Most sizes of one run.
const STEPS_MAX: usize = 100;

pub(super) const TABLE: Table = Table {
    grammar: Grammar::Getopt,
    operands: "URL",
    defaults: |options| {
        options.connections = Some(1);
        options.threads = Some(1);
        options.timeout = Some(std::time::Duration::from_mins(1));
        options.warmup = Some(WarmUp::NONE);
        options.old.loops = Some(1);
    },
    flags: &[
        Flag::value(
            &["--threads"],
            "N,...",
            "Users, each with a connection; several sizes one after the other.",
            |options, text| {
                options.old.steps = text
                    .split(',')
                    .map(|size| some_size(size.trim()))
                    .collect::<Result<_, _>>()?;
                if options.old.steps.len() > STEPS_MAX {
                    return Err(format!(
                        "found {} sizes, expected at most {STEPS_MAX}",
                        options.old.steps.len()
                    ));
                }
                Ok(())
            },
        ),
        Flag::value(
            &["--ramp-up"],
            "SECONDS",
            "Time in which users start, one after the other; 0 is all at once.",
            |options, text| {
                options.old.ramp_up = Some(duration(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["--loops"],
            "N|forever",
            "Requests of each user; `forever` is 15 s for each size unless --duration says otherwise.",
            |options, text| {
                options.old.loops = if text == "forever" {
                    None
                } else {
                    Some(some_count(text)?)
                };
                Ok(())
            },
        ),
        Flag::value(
            &["--duration"],
            "SECONDS",
            "How long each size is measured.",
            |options, text| {
                options.duration = Some(some_duration(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["--warmup"],
            "SECONDS",
            "Time before each size's measurement.",
            |options, text| {
                options.warmup = Some(WarmUp::For(duration(text)?));
                Ok(())
            },
        ),
        Flag::value(
            &["--method"],
            "METHOD",
            "The method; GET if not given.",
            |options, text| {
                options.method = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["--header"],
            "HEADER",
            "A header, `Name: value`; may be repeated.",
            |options, text| {
                options.headers.push(header(text)?);
                Ok(())
            },
        ),
        Flag::value(
            &["--body"],
            "TEXT",
            "The body of every request.",
            |options, text| {
                options.body = Some(text.to_owned());
                Ok(())
            },
        ),
        Flag::value(
            &["--timeout"],
            "SECONDS",
            "Longest wait for an answer; 60 if not given.",
            |options, text| {
                options.timeout = Some(some_duration(text)?);
                Ok(())
            },
        ),
        Flag::refused(
            &["-n", "-t", "-l", "--nongui", "--testfile", "--logfile"],
            "test plans (.jmx) are not read; give --threads, --loops and a URL",
        ),
        Flag::help(&["-h", "--help"]),
    ],
    finish: |options, operands| {
        if options.old.steps.is_empty() {
            options.old.steps = vec![1];
        }
        if options.old.loops.is_none() && options.duration.is_none() {
            options.duration = Some(STEP);
        }
        one_url(options, operands)
    },
};
