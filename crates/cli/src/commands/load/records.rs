//! What is written while a run lasts: a line for each slice of it as it ends, and a line for each request.

use std::{
    fs::File,
    io::{self, BufWriter, Write as _},
    path::{Path, PathBuf},
    thread::JoinHandle,
};

use forebay_load::{
    engine::{Line, Lines, Log, Stretch},
    report::{Report, ndjson},
};

use super::{LoadError, arguments::Options, forms::STANDARD_OUTPUT};
use crate::output;

/// The first line of a file of requests.
const LOG_HEAD: &str = "start_unix_s,latency_ms,status,bytes,class";

/// Sees a measurement while it lasts.
pub(crate) trait Witness {
    /// It begins; what came before was warm-up.
    fn begin(&mut self) {}

    /// What was measured so far; some times a second.
    fn look(&mut self, stretch: &Stretch);

    /// Everything is over.
    fn end(&mut self, report: &Report);
}

/// What options ask to be written.
#[derive(Default)]
pub(crate) struct Records {
    slices: Option<Slices>,
    requests: Option<Requests>,
}

struct Slices {
    file: PathBuf,
    out: Box<dyn io::Write>,
    live: ndjson::Live,
    failed: Option<io::Error>,
}

struct Requests {
    file: PathBuf,
    log: Log,
    writer: JoinHandle<io::Result<()>>,
}

impl Records {
    /// Opens the files, and notes in `options` that slices need not be written at the end.
    pub(crate) fn open(options: &mut Options) -> Result<Self, LoadError> {
        let mut records = Self::default();
        if let Some(file) = &options.forms.ndjson {
            let out: Box<dyn io::Write> = if file.as_os_str() == STANDARD_OUTPUT {
                Box::new(io::stdout())
            } else {
                Box::new(create(file)?)
            };
            records.slices = Some(Slices {
                file: file.clone(),
                out,
                live: ndjson::Live::default(),
                failed: None,
            });
            options.forms.ndjson_is_written = true;
        }
        if let Some(file) = &options.log {
            let mut out = BufWriter::new(create(file)?);
            let (log, lines) = Log::new();
            let clock = log.clone();
            let write = move || {
                writeln!(out, "{LOG_HEAD}")?;
                write_lines(&mut out, &lines, &clock)
            };
            let writer = std::thread::Builder::new().name("log".to_owned()).spawn(write);
            records.requests = Some(Requests {
                file: file.clone(),
                log,
                writer: writer.map_err(|source| failed(file, source))?,
            });
        }
        Ok(records)
    }

    /// Where threads put a line for each request.
    pub(crate) fn log(&self) -> Option<Log> {
        self.requests.as_ref().map(|requests| requests.log.clone())
    }

    /// Writes what is left, and says what went wrong and what was lost.
    pub(crate) fn close(self) -> Result<(), LoadError> {
        if let Some(Slices {
            file,
            failed: Some(source),
            ..
        }) = self.slices
        {
            return Err(failed(&file, source));
        }
        let Some(requests) = self.requests else {
            return Ok(());
        };
        requests.log.end();
        let written = requests
            .writer
            .join()
            .expect("the thread that writes the log does not panic");
        written.map_err(|source| failed(&requests.file, source))?;
        match requests.log.lost() {
            0 => {}
            lost => output::complaint(&format!(
                "note: {lost} requests are not in {}: it could not be written as fast as answers came",
                requests.file.display()
            )),
        }
        Ok(())
    }
}

impl Witness for Records {
    fn begin(&mut self) {
        if let Some(slices) = &mut self.slices {
            slices.live = ndjson::Live::default();
        }
        if let Some(requests) = &self.requests {
            requests.log.switch(true);
        }
    }

    fn look(&mut self, stretch: &Stretch) {
        if let Some(slices) = &mut self.slices {
            let lines = slices.live.look(stretch);
            slices.write(&lines);
        }
    }

    fn end(&mut self, report: &Report) {
        if let Some(slices) = &mut self.slices {
            let lines = slices.live.rest(report);
            slices.write(&lines);
        }
        if let Some(requests) = &self.requests {
            requests.log.switch(false);
        }
    }
}

impl Slices {
    fn write(&mut self, lines: &str) {
        if lines.is_empty() || self.failed.is_some() {
            return;
        }
        let written = self
            .out
            .write_all(lines.as_bytes())
            .and_then(|()| self.out.flush());
        self.failed = written.err();
    }
}

fn create(file: &Path) -> Result<File, LoadError> {
    File::create(file).map_err(|source| failed(file, source))
}

fn failed(file: &Path, source: io::Error) -> LoadError {
    LoadError::Write {
        file: file.display().to_string(),
        source,
    }
}

/// Writes lines until there are no more. After an error it takes the rest without writing, so that what is lost is not counted twice.
fn write_lines(out: &mut impl io::Write, lines: &Lines, clock: &Log) -> io::Result<()> {
    let mut written = Ok(());
    while let Some(batch) = lines.next() {
        if written.is_ok() {
            written = batch
                .iter()
                .try_for_each(|line| write_line(out, line, clock.began_unix_ns()));
        }
    }
    written.and_then(|()| out.flush())
}

fn write_line(out: &mut impl io::Write, line: &Line, began_unix_ns: u64) -> io::Result<()> {
    let start_us = began_unix_ns.saturating_add(line.due_ns) / 1_000;
    writeln!(
        out,
        "{}.{:06},{}.{:06},{},{},{}",
        start_us / 1_000_000,
        start_us % 1_000_000,
        line.latency_ns / 1_000_000,
        line.latency_ns % 1_000_000,
        line.status,
        line.bytes,
        line.class.map_or("", forebay_load::failure::Class::name)
    )
}
