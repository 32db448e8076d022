//! The lines printed by `QOper8`'s benchmark, word for word. `sdk/node/src/pool/benchmark/lines.ts` has the same for JavaScript pools.

use std::time::Duration;

use forebay_load::report::format::grouped;

const RULE: &str = "===========================";

/// A number in English notation with at most three decimals.
fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    let (whole, decimals) = text.split_once('.').expect("it has decimals");
    let decimals = decimals.trim_end_matches('0');
    let dot = if decimals.is_empty() { "" } else { "." };
    format!("{}{dot}{decimals}", grouped(whole))
}

/// `block` counts from 1; `sent` is the number of messages in earlier blocks.
pub(crate) fn queue_increased(block: u64, sent: u64, waiting: u64) -> String {
    format!(
        "Block no: {block} ({}): queue length increased to {}",
        number(sent as f64),
        number(waiting as f64)
    )
}

pub(crate) fn delay_increased(delay: Duration) -> String {
    format!("delay increased to {}", delay.as_millis())
}

pub(crate) fn queue_exhausted(block: u64, sent: u64) -> String {
    format!("Block no: {block} ({}): Queue exhausted", number(sent as f64))
}

pub(crate) fn delay_reduced(delay: Duration) -> String {
    format!("delay reduced to {}", delay.as_millis())
}

pub(crate) fn completed_sending() -> String {
    "Completed sending messages".to_owned()
}

/// The summary at the end of a run; `handled` is the number of messages per worker.
pub(crate) fn summary(messages: u64, seconds: f64, handled: impl IntoIterator<Item = u64>) -> Vec<String> {
    let mut lines = vec![
        RULE.to_owned(),
        " ".to_owned(),
        format!("{} messages: {} sec", number(messages as f64), number(seconds)),
        format!(
            "Processing rate: {} message/sec",
            number(messages as f64 / seconds)
        ),
    ];
    lines.extend(handled.into_iter().enumerate().map(|(worker, count)| {
        format!(
            "Child Process {worker}: {} messages handled",
            number(count as f64)
        )
    }));
    lines.extend([" ".to_owned(), RULE.to_owned()]);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_qoper8() {
        let ms = Duration::from_millis;
        assert_eq!(
            queue_increased(2, 100, 100),
            "Block no: 2 (100): queue length increased to 100"
        );
        assert_eq!(
            queue_increased(12, 22_000, 1950),
            "Block no: 12 (22,000): queue length increased to 1,950"
        );
        assert_eq!(delay_increased(ms(10)), "delay increased to 10");
        assert_eq!(queue_exhausted(1, 0), "Block no: 1 (0): Queue exhausted");
        assert_eq!(delay_reduced(ms(9)), "delay reduced to 9");
        assert_eq!(completed_sending(), "Completed sending messages");
        assert_eq!(
            summary(1000, 0.138, [498, 502]),
            [
                "===========================",
                " ",
                "1,000 messages: 0.138 sec",
                "Processing rate: 7,246.377 message/sec",
                "Child Process 0: 498 messages handled",
                "Child Process 1: 502 messages handled",
                " ",
                "===========================",
            ]
        );
    }

    #[test]
    fn numbers_have_the_decimals_that_they_need() {
        assert_eq!(number(0.0), "0");
        assert_eq!(number(24.923), "24.923");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(20_061.79), "20,061.79");
        assert_eq!(number(999.9996), "1,000");
    }
}
