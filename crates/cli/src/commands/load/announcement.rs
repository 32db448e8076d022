//! What is about to be done, in a line.

use std::{fmt::Write as _, time::Duration};

use forebay_load::{
    plan::{Engine, Pace},
    search::WarmUp,
};

use super::{arguments::Options, plan::Job};

/// The line, such as `GET http://localhost:8080/local: 64 connections on 1 thread, 10s after 2s of warm-up`.
pub(crate) fn announcement(job: &Job, options: &Options) -> String {
    let mut text = format!("{} {}", job.run.method, job.run.urls[0]);
    // A String takes everything.
    let _ = write_further(&mut text, job, options);
    text
}

fn write_further(text: &mut String, job: &Job, options: &Options) -> std::fmt::Result {
    if job.run.urls.len() > 1 {
        write!(text, " and {} more", job.run.urls.len() - 1)?;
    }
    if let Some(search) = search(options, job) {
        return write!(text, ": {search}, on {}", several(job.plan.threads, "thread"));
    }
    let connections = match options.of_tool.sizes.as_slice() {
        [] | [_] => several(job.connections_max, "connection"),
        steps => {
            let sizes: Vec<String> = steps.iter().map(usize::to_string).collect();
            format!("{} connections in turn", sizes.join(", "))
        }
    };
    write!(text, ": {connections} on {}", several(job.plan.threads, "thread"))?;
    if job.plan.engine == Engine::IoUring {
        text.push_str(" with io_uring");
    }
    if job.plan.pipeline > 1 {
        write!(text, ", up to {} requests under way on each", job.plan.pipeline)?;
    }
    match job.load.pace {
        _ if job.schedule.is_some() => write!(text, ", {}", several(options.stages.len(), "stage"))?,
        Pace::Closed => {}
        Pace::Open { per_second, .. } => write!(text, ", {per_second} requests/s")?,
    }
    if let Some(requests) = job.until.requests {
        write!(text, ", {}", several(requests as usize, "request"))?;
    }
    match job.until.duration {
        Some(duration) if job.until.requests.is_some() => write!(text, ", at most {duration:?}")?,
        Some(duration) => write!(text, ", {duration:?}")?,
        None => {}
    }
    match job.warm_up {
        WarmUp::For(Duration::ZERO) => Ok(()),
        WarmUp::For(time) => write!(text, " after {time:?} of warm-up"),
        WarmUp::UntilSteady { least, most } => {
            write!(
                text,
                " after a warm-up until it is steady ({least:?} to {most:?})"
            )
        }
    }
}

/// What is searched, if something is.
fn search(options: &Options, job: &Job) -> Option<String> {
    let connections = several(job.connections_max, "connection");
    if options.find_best {
        return Some(format!(
            "looking for the best number of connections, up to {}",
            job.connections_max
        ));
    }
    if let (true, Some(slo)) = (options.find_rate, &options.slo) {
        return Some(format!("looking for the highest rate with {slo}, {connections}"));
    }
    if let Some(share) = options.until_ci {
        return Some(format!(
            "until the rate is known to {} %, {connections}",
            share * 100.0
        ));
    }
    let other = options.vs.as_ref().or(options.vs_cmd.as_ref());
    if let Some(other) = other {
        return Some(format!("in turn with {other}, {connections}"));
    }
    None
}

fn several(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
