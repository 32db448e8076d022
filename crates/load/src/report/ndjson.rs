//! How a run went, with one JSON object a line for each slice of it, as the `timeline` of the [`super::json`] form has them.

use super::{Report, course, json};

/// The lines, in the order of time.
pub fn write(report: &Report) -> String {
    let steps = course::steps(report);
    steps.iter().map(|step| json::step(step).line() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_the_slice_that_the_whole_report_has() {
        let report = Report::example();
        let whole: serde_json::Value =
            serde_json::from_str(&json::write(&report, &super::super::Options::default())).unwrap();
        let lines: Vec<serde_json::Value> = write(&report)
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(whole["timeline"], serde_json::Value::from(lines));
    }
}
