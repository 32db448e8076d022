//! Text wrapping, sparklines and bars for a terminal.

use super::{BAR_WIDTH, SPARKS_MAX};

/// Splits text into lines of at most `width` columns, between words.
pub(in crate::report) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A sparkline: one character for each part of the run; its height is the lowest rate in that part, from 0 to the highest of the run. A
/// mean would hide a short stall.
pub(super) fn sparks(rates: &[f64]) -> String {
    let most = rates.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let parts = rates.chunks(rates.len().div_ceil(SPARKS_MAX).max(1));
    let lowest = parts.map(|part| part.iter().copied().fold(most, f64::min));
    lowest
        .map(|rate| {
            ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'][((rate / most * 8.0).round() as usize).clamp(1, 8) - 1]
        })
        .collect()
}

/// A bar as long as its share of the longest, to an eighth of a column; never empty for a number above 0.
pub(super) fn bar(number: u64, most: u64) -> String {
    let eighths = (number as f64 / most.max(1) as f64 * (BAR_WIDTH * 8) as f64).round() as usize;
    let eighths = if number > 0 { eighths.max(1) } else { 0 };
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(['▏', '▎', '▍', '▌', '▋', '▊', '▉'].get((eighths % 8).wrapping_sub(1)));
    bar
}
