//! Checks whether a script can be loaded, without a store, network or request.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
};

use crate::{
    Failure,
    budget::Pulse,
    executor::STACK_BYTES,
    host::store_was_missed,
    instance::{Instance, Place},
    modules::Modules,
    options::Options,
};

/// How far a valid script was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// Completely, including start hooks.
    Whole,
    /// Until it used the store, which a check does not have. All modules that are imported by name were found and compiled.
    UntilStore,
}

/// The reason why a script cannot be loaded, and its location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", self.place())]
pub struct Fault {
    /// The file of the module.
    pub file: PathBuf,
    /// The line, counted from 1, if known.
    pub line: Option<u32>,
    /// The column, counted from 1, if known.
    pub column: Option<u32>,
    /// The error message.
    pub what: String,
}

impl Fault {
    /// The location as `file:line:column`, which editors and terminals turn into a link.
    pub fn place(&self) -> String {
        let mut place = self.file.display().to_string();
        for number in [self.line, self.column].into_iter().flatten() {
            place.push(':');
            place.push_str(&number.to_string());
        }
        place
    }
}

/// Loads a script like [`Script::start`](crate::Script::start), within `time_max`. It may reach the globals of a store. Without
/// [`Options::store`] its requests to the store are refused, and nothing that it does afterwards is reported.
///
/// A script that cannot be stopped costs its thread.
pub fn check(options: Options) -> Result<Checked, Fault> {
    let options = Arc::new(options);
    let modules = Arc::new(Modules::new(options.environment, options.program.clone()));
    let pulse = Arc::new(Pulse::default());
    let its_pulse = pulse.clone();
    let (sender, receiver) = mpsc::sync_channel(1);
    let (own, its_modules) = (options.clone(), modules.clone());
    let spawned = thread::Builder::new()
        .name(format!("script-{}", options.name))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let loaded = Instance::load(&own, &its_modules, Place::Executor, its_pulse).map(drop);
            // The receiver is gone if this took too long.
            let _ = sender.send((loaded, store_was_missed()));
        });
    let handler = options.program.handler().unwrap_or(Path::new(""));
    let fault = |what: String| Fault {
        file: handler.to_owned(),
        line: None,
        column: None,
        what,
    };
    spawned.map_err(|error| fault(format!("no thread can be made: {error}")))?;
    let time_max = options.limits.time_max;
    match receiver.recv_timeout(time_max) {
        Ok((Ok(()), false)) => Ok(Checked::Whole),
        Ok((Ok(()) | Err(_), true)) => Ok(Checked::UntilStore),
        Ok((Err(Failure::Broken { reason }), false)) => {
            // A failed import has no stack; a script that continues without it fails elsewhere.
            let import = modules.failed_import().filter(|_| !reason.lines().any(is_frame));
            Err(import.unwrap_or_else(|| thrown(&reason, handler)))
        }
        Ok((Err(failure), false)) => Err(fault(failure.to_string())),
        Err(_) => {
            pulse.give_up();
            Err(fault(format!("it is not loaded after {time_max:?} (time_max)")))
        }
    }
}

/// Extracts the message from the description of an error, and the innermost location in the script's own files from its stack.
pub(crate) fn thrown(reason: &str, handler: &Path) -> Fault {
    let place = reason.lines().filter(|line| is_frame(line)).find_map(|frame| {
        let place = frame
            .rsplit_once(' ')?
            .1
            .trim_start_matches('(')
            .trim_end_matches(')');
        let mut parts = place.rsplitn(3, ':');
        let column = parts.next()?.parse().ok()?;
        let line = parts.next()?.parse().ok()?;
        let file = Path::new(parts.next()?);
        // Its files need not exist on disk; those of the SDK are never in the same folder.
        let is_own = file.is_absolute() || file.parent() == handler.parent();
        is_own.then(|| (file.to_owned(), line, column))
    });
    let what: Vec<&str> = reason.lines().take_while(|line| !is_frame(line)).collect();
    let what = what.join("\n").trim_end().to_owned();
    match place {
        Some((file, line, column)) => Fault {
            file,
            line: Some(line),
            column: Some(column),
            what,
        },
        None => Fault {
            file: handler.to_owned(),
            line: None,
            column: None,
            what,
        },
    }
}

/// Whether this is a line of a stack.
fn is_frame(line: &str) -> bool {
    line.starts_with("    at ")
}
