//! A saved run: the JSON of [`super::json`] with one more field, `record`, from which the whole report can be restored, down to the last
//! count of its histograms. Saved runs can be read by other programs, printed in every form, and compared.

use serde::Deserialize as _;
use serde_json::{Value, json};

use super::{Options, Report, json};

/// Name of the field with the record.
const RECORD: &str = "record";
/// Version of the record's format. Other versions are rejected.
const VERSION: u64 = 2;
/// Most URLs of a run that is read.
const URLS_MAX: usize = 10_000;

/// Why a text is not a saved run.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// Not JSON.
    #[error("it is not JSON; a saved run is what --save writes")]
    Json {
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// JSON without a record.
    #[error("it has no record of a whole run; a saved run is what --save writes")]
    NoRecord,
    /// A record of an unsupported version.
    #[error("its record has version {found}, this program reads version {VERSION}")]
    Version {
        /// The version found.
        found: Value,
    },
    /// A record with missing or malformed fields.
    #[error("its record is incomplete or damaged")]
    Record {
        /// The error of the parser.
        #[source]
        source: serde_json::Error,
    },
    /// A figure that no run can have.
    #[error("its record has {what} that no run can have")]
    Figure {
        /// Name of the figure.
        what: &'static str,
    },
}

/// Serializes a report as a saved run.
pub fn write(report: &Report, options: &Options) -> String {
    let mut whole = json::whole(report, options);
    whole[RECORD] = json!({"version": VERSION, "report": report});
    format!("{whole}\n")
}

/// Reads the report of a saved run.
pub fn read(text: &str) -> Result<Report, SavedError> {
    let mut value: Value = serde_json::from_str(text).map_err(|source| SavedError::Json { source })?;
    match value.get_mut(RECORD).map(Value::take) {
        Some(record) => from_record(&record),
        None => Err(SavedError::NoRecord),
    }
}

/// The report of a record. Records may come from anywhere: figures that would lead the arithmetic astray are rejected.
fn from_record(record: &Value) -> Result<Report, SavedError> {
    if record["version"] != VERSION {
        let found = record["version"].clone();
        return Err(SavedError::Version { found });
    }
    let report = Report::deserialize(&record["report"]).map_err(|source| SavedError::Record { source })?;
    let impossible = |what| Err(SavedError::Figure { what });
    if report.seconds < 0.0 || report.per_second < 0.0 || report.cpu_seconds < 0.0 {
        return impossible("a length or rate below 0");
    }
    if !report.timeline.is_possible() {
        return impossible("a timeline");
    }
    if report.run.urls.len() > URLS_MAX {
        return impossible("more URLs");
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::text;

    #[test]
    fn a_saved_run_is_the_same_run_again_in_every_form() {
        let options = Options::default();
        for report in [Report::example(), Report::example_open()] {
            let again = read(&write(&report, &options)).unwrap();
            assert_eq!(again, report);
            assert_eq!(text::write(&again, &options), text::write(&report, &options));
        }
    }

    #[test]
    fn a_saved_run_is_still_what_programs_rely_on() {
        let options = Options::default();
        let report = Report::example();
        let mut saved: Value = serde_json::from_str(&write(&report, &options)).unwrap();
        assert!(saved.as_object_mut().unwrap().remove(RECORD).is_some());
        let plain: Value = serde_json::from_str(&json::write(&report, &options)).unwrap();
        assert_eq!(saved, plain);
    }

    #[test]
    fn what_is_no_saved_run_is_refused_with_the_reason() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        assert!(told("{").contains("not JSON"));
        let json = json::write(&Report::example(), &Options::default());
        assert!(told(&json).contains("--save"));
        let record = json!({"version": VERSION, "report": Report::example()});
        let changed = |path: &str, value: Value| {
            let mut record = record.clone();
            *record.pointer_mut(path).unwrap() = value;
            told(&json!({"record": record}).to_string())
        };
        assert!(changed("/version", json!(1)).contains("version 1"));
        assert!(changed("/report/seconds", json!(-1.0)).contains("below 0"));
        assert!(changed("/report/timeline/slice_ns", json!(0)).contains("timeline"));
        assert!(changed("/report/timeline/slice_ns", json!(300_000_000)).contains("timeline"));
        assert!(changed("/report/latency_ns", json!("AAAA")).contains("damaged"));
        assert!(changed("/report/failures/0/class", json!("bad luck")).contains("damaged"));
    }
}
