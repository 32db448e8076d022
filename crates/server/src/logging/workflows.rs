//! The logs of workflow rules: one JSON lines file per workflow in a common folder, each rotated by size, and the most recent lines of each
//! for the control socket.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use forebay_trace::Trace;
use parking_lot::Mutex;
use serde_json::Value;
use tracing::Level;

use super::{
    Entry, LogExporter, LoggingError, Recent,
    file::RotatingFile,
    line::timestamp,
    writer::{Output, Writer},
};
use crate::config::LogRotation;

/// Most files open at a time.
const OPEN_MAX: usize = 256;
/// Longest file name without its extension, in bytes.
const NAME_BYTES_MAX: usize = 200;

/// The logs of all workflows.
#[derive(Debug)]
pub(crate) struct WorkflowLogs {
    folder: PathBuf,
    writer: Writer,
    exporter: Option<Arc<LogExporter>>,
    /// The most recent lines of each workflow.
    recent: Mutex<HashMap<Arc<str>, Arc<Recent>>>,
}

impl WorkflowLogs {
    /// Starts logging into a folder, which is created if there is none.
    pub(crate) fn start(
        folder: &Path,
        rotate: LogRotation,
        exporter: Option<Arc<LogExporter>>,
    ) -> Result<Arc<Self>, LoggingError> {
        fs::create_dir_all(folder).map_err(|source| LoggingError::File {
            file: folder.to_owned(),
            source,
        })?;
        let files = WorkflowFiles {
            folder: folder.to_owned(),
            rotate,
            open: HashMap::new(),
        };
        Ok(Arc::new(Self {
            folder: folder.to_owned(),
            writer: Writer::start(Output::Workflows(files)).map_err(LoggingError::Thread)?,
            exporter,
            recent: Mutex::default(),
        }))
    }

    /// The folder with the log files.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The most recent lines of a workflow.
    pub(crate) fn recent(&self, workflow: &str) -> Arc<Recent> {
        let mut recent = self.recent.lock();
        if let Some(found) = recent.get(workflow) {
            return Arc::clone(found);
        }
        let new = Arc::new(Recent::default());
        if let Some(exporter) = &self.exporter {
            new.export_to(exporter);
        }
        recent.insert(workflow.into(), Arc::clone(&new));
        new
    }

    /// Reopens the files, which may have been renamed.
    pub(crate) fn reopen(&self) {
        self.writer.reopen();
    }

    /// Lines dropped because they came faster than they could be written.
    pub(crate) fn lines_lost(&self) -> u64 {
        self.writer.lost()
    }

    /// Starts collecting the lines of a run.
    pub(crate) fn of_run(self: &Arc<Self>, workflow: &str, request_id: &str) -> RunLog {
        RunLog {
            logs: Arc::clone(self),
            recent: self.recent(workflow),
            workflow: Arc::from(workflow),
            request_id: Value::from(request_id).to_string(),
            lines: String::new(),
        }
    }
}

impl Drop for WorkflowLogs {
    fn drop(&mut self) {
        self.writer.close();
    }
}

/// The lines of one run, written together when it is over.
#[derive(Debug)]
pub(crate) struct RunLog {
    logs: Arc<WorkflowLogs>,
    recent: Arc<Recent>,
    workflow: Arc<str>,
    /// Encoded as JSON.
    request_id: String,
    lines: String,
}

impl forebay_workflow::RunLog for RunLog {
    fn line(&mut self, level: Level, message: &str, node: Option<(&str, Option<&str>)>, stack: Option<&str>) {
        let (workflow, message) = (Value::from(&*self.workflow), Value::from(message));
        let (timestamp, request_id) = (timestamp(), &self.request_id);
        let mut json = format!(
            "{{\"timestamp\":\"{timestamp}\",\"level\":\"{level}\",\"target\":{workflow},\"message\":{message},\"request_id\":{request_id}"
        );
        // Writing to a string does not fail.
        let mut member = |name: &str, value: Option<&str>| {
            if let Some(value) = value {
                let _ = write!(json, ",\"{name}\":{}", Value::from(value));
            }
        };
        member("node", node.map(|(id, _)| id));
        member("node_name", node.and_then(|(_, name)| name));
        member("stack", stack);
        let trace = forebay_trace::current();
        let ids = trace.as_ref().and_then(Trace::ids);
        member("trace_id", ids.map(|(trace, _)| trace));
        member("span_id", ids.map(|(_, span)| span));
        json.push_str("}\n");
        let _ = write!(self.lines, "{workflow}\t{json}");
        self.recent.push(Entry {
            level,
            at: SystemTime::now(),
            json,
        });
    }
}

impl Drop for RunLog {
    fn drop(&mut self) {
        if !self.lines.is_empty() {
            self.logs.writer.push(self.lines.as_bytes());
        }
    }
}

/// The log files of a folder. In the input, each line is preceded by the workflow's name as JSON and a tab.
#[derive(Debug)]
pub(super) struct WorkflowFiles {
    folder: PathBuf,
    rotate: LogRotation,
    open: HashMap<Vec<u8>, RotatingFile>,
}

impl WorkflowFiles {
    /// Writes whole lines, each to the file of its workflow.
    pub(super) fn write(&mut self, mut lines: &[u8]) -> io::Result<()> {
        let mut texts: Vec<(&[u8], Vec<u8>)> = Vec::new();
        while let Some(tab) = memchr::memchr(b'\t', lines) {
            let (name, rest) = (&lines[..tab], &lines[tab + 1..]);
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
            match texts.iter_mut().find(|(other, _)| *other == name) {
                Some((_, text)) => text.extend_from_slice(&rest[..end]),
                None => texts.push((name, rest[..end].to_vec())),
            }
            lines = &rest[end..];
        }
        let mut outcome = Ok(());
        for (name, text) in texts {
            let written = self.file(name).and_then(|file| file.write(&text));
            outcome = outcome.and(written);
        }
        outcome
    }

    /// Closes the files; each is reopened for its next line.
    pub(super) fn close(&mut self) {
        self.open.clear();
    }

    fn file(&mut self, name: &[u8]) -> io::Result<&mut RotatingFile> {
        if !self.open.contains_key(name) {
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            let path = self.folder.join(file_name(name));
            self.open
                .insert(name.to_vec(), RotatingFile::open(&path, self.rotate)?);
        }
        Ok(self.open.get_mut(name).expect("it was put there"))
    }
}

/// `NAME.log` for a name given as JSON; bytes that are unsafe in file names become `%HH`.
fn file_name(quoted: &[u8]) -> String {
    let name: String = serde_json::from_slice(quoted).unwrap_or_default();
    let mut safe = String::with_capacity(name.len() + 4);
    for (at, byte) in name.bytes().enumerate() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') || byte == b'.' && at > 0;
        if is_plain {
            safe.push(char::from(byte));
        } else {
            let _ = write!(safe, "%{byte:02X}");
        }
    }
    if safe.len() > NAME_BYTES_MAX {
        safe.truncate(NAME_BYTES_MAX);
    }
    safe.push_str(".log");
    safe
}

#[cfg(test)]
mod tests {
    use forebay_workflow::RunLog as _;

    use super::*;

    #[test]
    fn the_recent_lines_of_a_workflow_outlast_those_of_others() {
        let folder = std::env::temp_dir().join(format!("fb-workflow-recent-{}", std::process::id()));
        let rotate = LogRotation {
            size: 1 << 20,
            keep: 1,
        };
        let logs = WorkflowLogs::start(&folder, rotate, None).unwrap();
        let write = |workflow: &str| logs.of_run(workflow, "r").line(Level::INFO, "text", None, None);
        write("quiet");
        (0..5000).for_each(|_| write("loud"));
        let kept = |workflow: &str| logs.recent(workflow).look().0.len();
        assert_eq!((kept("quiet"), kept("loud"), kept("other")), (1, 1000, 0));
        drop(logs);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn each_workflow_has_a_file_of_its_own_whatever_its_name() {
        let folder = std::env::temp_dir().join(format!("fb-workflow-logs-{}", std::process::id()));
        let rotate = LogRotation {
            size: 1 << 20,
            keep: 1,
        };
        let logs = WorkflowLogs::start(&folder, rotate, None).unwrap();
        for workflow in ["order", "../x y", ""] {
            let mut run = logs.of_run(workflow, "r\"1");
            run.line(Level::INFO, "tab\tand\nline", None, None);
            run.line(Level::ERROR, "no", Some(("1", Some("first"))), Some("at a.js:1"));
        }
        drop(logs);
        for name in ["order.log", "%2E.%2Fx%20y.log", ".log"] {
            let text = fs::read_to_string(folder.join(name)).unwrap();
            let lines: Vec<Value> = text
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect();
            assert_eq!(lines.len(), 2, "{name}");
            assert_eq!(
                (&lines[1]["node"], &lines[1]["node_name"]),
                (&"1".into(), &"first".into())
            );
            assert_eq!(lines[0]["message"], "tab\tand\nline");
            assert_eq!(
                (&lines[1]["node"], &lines[1]["request_id"]),
                (&"1".into(), &"r\"1".into())
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }
}
