//! Loads a script to see whether it can be loaded, with nothing around it: no store, no network, no request.

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

/// How far a script was loaded that nothing is wrong with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checked {
    /// To its end, start hooks included.
    Whole,
    /// Until it asked for the store, which is not there for a check. Its modules have been found and compiled, all of them that are imported
    /// by name.
    UntilStore,
}

/// Why a script cannot be loaded, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {what}", self.place())]
pub struct Fault {
    /// The module.
    pub file: PathBuf,
    /// From 1, where it is known.
    pub line: Option<u32>,
    /// From 1, where it is known.
    pub column: Option<u32>,
    /// What is found there.
    pub what: String,
}

impl Fault {
    /// The place, in the form that editors and terminals make a link of: `file:line:column`.
    pub fn place(&self) -> String {
        let mut place = self.file.display().to_string();
        for number in [self.line, self.column].into_iter().flatten() {
            place.push(':');
            place.push_str(&number.to_string());
        }
        place
    }
}

/// Loads a script as [`Script::start`](crate::Script::start) does, within `time_max`. The globals that it may reach are those of a store; without
/// [`Options::store`] it is refused what it asks of them, and then nothing is said against what it does.
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
            // Nobody waits for it any more: it took too long.
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
            // An import that fails has no stack; a script that goes on without it fails elsewhere.
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

/// What the description of an error says, and the innermost place of the script's own in its stack.
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
        // Its files may be in no folder of the system; those of the SDK never lie beside them.
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

/// Whether it is a line of a stack.
fn is_frame(line: &str) -> bool {
    line.starts_with("    at ")
}
