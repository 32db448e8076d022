//! The rows of a ladder: figures over all slices, ratios, and what they are worth.

use std::{collections::BTreeMap, time::Duration};

use forebay_load::{
    engine::latencies,
    machine::{Environment, Machine},
    stats::{Interval, Ratio, ratio},
};
use hdrhistogram::Histogram;

use super::{
    contender::Contender,
    run::Settings,
    saved::{Saved, Slice},
    suite::{Bar, Curve, Entry, Limit, Published, Suite},
};

/// Above this share of the machine, others make figures doubtful.
const OTHERS_MAX: f64 = 0.1;
/// Pairs from which on an interval is computed.
const PAIRS_MIN: usize = 4;
/// Above this factor from one point of a curve to the next, cost grows faster than work; less is within what a cache or a level of a tree makes.
const GROWTH_MAX: f64 = 1.25;
/// Above this use of the generator's cores, the generator may have been the limit.
const CLIENT_FULL: f64 = 0.97;

/// The result of a run.
#[derive(Debug)]
pub struct Report {
    /// The suite's name.
    pub name: String,
    /// Processor, cores and kernel.
    pub environment: Environment,
    /// Names and versions of the programs that took part.
    pub programs: Vec<(String, String)>,
    /// How it was measured.
    pub settings: Settings,
    /// Rungs, then peers.
    pub rows: Vec<Row>,
    /// Tables that others have published.
    pub tables: Vec<ComparedTable>,
    /// Curves over amounts, if the suite has any.
    pub curves: Vec<MeasuredCurve>,
    /// How long it took.
    pub took: Duration,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

/// A curve: the cost of a request by an amount.
#[derive(Debug)]
pub struct MeasuredCurve {
    /// The amount, in the plural.
    pub title: String,
    /// Why the cost is as it is.
    pub why: String,
    /// The points that were measured, in ascending order.
    pub points: Vec<Point>,
}

/// A point of a curve.
#[derive(Debug)]
pub struct Point {
    /// How much there is.
    pub value: u64,
    /// The row with its figures.
    pub row: Row,
    /// CPU time of a request over that of the point before, divided by the same ratio of the work; `None` at the first point.
    pub growth: Option<f64>,
}

impl Point {
    /// Whether the cost has grown clearly faster than the work since the point before.
    pub fn grows_faster(&self) -> bool {
        self.growth.is_some_and(|growth| growth > GROWTH_MAX)
    }
}

impl MeasuredCurve {
    fn of(curve: &Curve, rows: &[Row]) -> Self {
        let mut points: Vec<Point> = Vec::new();
        for (value, name) in curve.values.iter().zip(&curve.names) {
            let row = rows.iter().find(|row| row.name == *name && row.figures.is_some());
            let Some(row) = row else { continue };
            let growth = points.last().and_then(|before| {
                let work = (*value as f64 / before.value as f64).powf(curve.work);
                Some(row.cpu_us()? / before.row.cpu_us()? / work)
            });
            points.push(Point {
                value: *value,
                row: row.clone(),
                growth,
            });
        }
        Self {
            title: curve.title.clone(),
            why: curve.why.clone(),
            points,
        }
    }
}

impl Row {
    fn cpu_us(&self) -> Option<f64> {
        self.figures.as_ref().and_then(Figures::cpu_us)
    }
}

/// A table that others have published, with the figures of this run.
#[derive(Debug)]
pub struct ComparedTable {
    /// The heading, with the command that was measured.
    pub title: String,
    /// In the document's order.
    pub rows: Vec<Compared>,
}

/// A row that others have published, and what the same is here.
#[derive(Debug)]
pub struct Compared {
    /// As it was published.
    pub published: Published,
    /// Its requests a second over those of its baseline, as published.
    pub published_ratio: Option<f64>,
    /// Requests a second here.
    pub per_second: Option<f64>,
    /// Mean latency here, in milliseconds.
    pub mean_ms: Option<f64>,
    /// Requests a second over those of the baseline, here.
    pub ratio: Option<Ratio>,
}

impl Compared {
    /// Whether both figures of a goal are reached; `None` for what is no goal or was not measured.
    pub fn is_reached(&self) -> Option<bool> {
        let is_slow = |limit: f64| self.mean_ms.is_some_and(|mean| mean > limit);
        let per_second = self.per_second.filter(|_| self.published.goal)?;
        Some(per_second >= self.published.per_second && !self.published.mean_ms.is_some_and(is_slow))
    }
}

/// One way of answering.
#[derive(Clone, Debug)]
pub struct Row {
    /// The entry's name.
    pub name: String,
    /// Whether it is another program.
    pub is_peer: bool,
    /// The entry that it is compared with.
    pub base: Option<String>,
    /// Method and path of the request.
    pub request: String,
    /// Figures, if there are any.
    pub figures: Option<Figures>,
    /// Its requests a second over those of its base, and how sure that is.
    pub ratio_to_base: Option<Ratio>,
    /// CPU time of server and workers for each request beyond that of its base, in microseconds.
    pub hop_us: Option<f64>,
    /// Ratios that were to be reached.
    pub bars: Vec<BarResult>,
    /// The judgement on the figures.
    pub verdict: Verdict,
    /// Why there is no figure, or why to doubt it.
    pub notes: Vec<String>,
    /// Requests a second by number of connections, if the best was looked for.
    pub curve: Vec<(usize, f64)>,
}

/// Figures of all slices together.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Number of connections.
    pub connections: usize,
    /// Number of slices.
    pub slices: usize,
    /// Right responses a second: the mean of the slices.
    pub per_second: f64,
    /// The 95 % interval of that mean; `None` for few slices.
    pub interval: Option<(f64, f64)>,
    /// The mean latency, in milliseconds.
    pub mean_ms: Option<f64>,
    /// The median latency, in milliseconds.
    pub p50_ms: Option<f64>,
    /// The 99th percentile of latency, in milliseconds.
    pub p99_ms: Option<f64>,
    /// CPU time of the server's own process for each request, in microseconds.
    pub server_us: Option<f64>,
    /// CPU time of its workers for each request, in microseconds.
    pub workers_us: Option<f64>,
    /// Latencies in nanoseconds; empty for a program's own figures.
    pub latency: Histogram<u64>,
}

/// A ratio that was to be reached.
#[derive(Clone, Debug)]
pub struct BarResult {
    /// The other entry, and the limit.
    pub bar: Bar,
    /// The ratio, if both were measured.
    pub ratio: Option<Ratio>,
}

/// The judgement on a row's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every bar is reached.
    Holds,
    /// A bar is not reached.
    Misses,
    /// The interval of a ratio contains its bar.
    Undecided,
    /// It has no bar, or none that could be compared.
    Measured,
    /// Others used the machine.
    Busy,
    /// Not installed.
    Skipped,
    /// It answered wrongly, or not at all.
    Failed,
    /// The run ended before.
    Missing,
}

impl Verdict {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Misses => "misses",
            Self::Undecided => "undecided",
            Self::Measured => "measured",
            Self::Busy => "busy",
            Self::Skipped => "skipped",
            Self::Failed => "failed",
            Self::Missing => "missing",
        }
    }
}

impl BarResult {
    /// Whether the limit is kept; `None` if one of both was not measured.
    pub fn verdict(&self) -> Option<Verdict> {
        let Ratio {
            value,
            low,
            high,
            pairs,
        } = self.ratio?;
        let holds = |value| self.bar.limit.holds(value);
        Some(match holds(value) {
            // A single pair has no spread.
            _ if pairs < 2 || holds(low) != holds(high) => Verdict::Undecided,
            true => Verdict::Holds,
            false => Verdict::Misses,
        })
    }
}

impl Figures {
    fn of(slices: &[&Slice]) -> Option<Self> {
        let last = slices.last()?;
        let mean = |of: &dyn Fn(&Slice) -> Option<f64>| {
            let values: Vec<f64> = slices.iter().filter_map(|slice| of(slice)).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        };
        let rates: Vec<f64> = slices.iter().map(|slice| slice.per_second).collect();
        let mut latency = latencies();
        for slice in slices {
            // Both have the same bounds.
            let _ = latency.add(&slice.latency);
        }
        let percentile =
            |quantile| (!latency.is_empty()).then(|| latency.value_at_quantile(quantile) as f64 / 1e6);
        Some(Self {
            connections: last.connections,
            slices: slices.len(),
            per_second: mean(&|slice| Some(slice.per_second))?,
            interval: Interval::of_mean(&rates)
                .filter(|_| rates.len() >= PAIRS_MIN)
                .map(|interval| (interval.low, interval.high)),
            mean_ms: (!latency.is_empty()).then(|| latency.mean() / 1e6),
            p50_ms: percentile(0.5).or_else(|| mean(&|slice| slice.p50_ms)),
            p99_ms: percentile(0.99).or_else(|| mean(&|slice| slice.p99_ms)),
            server_us: mean(&|slice| slice.server_us),
            workers_us: mean(&|slice| slice.workers_us),
            latency,
        })
    }

    /// CPU time of server and workers for each request, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        Some(self.server_us? + self.workers_us.unwrap_or(0.0))
    }
}

impl Report {
    pub(super) fn new(
        suite: &Suite,
        programs: Vec<(String, String)>,
        contenders: &[Contender<'_>],
        settings: &Settings,
        saved: &Saved,
        took: Duration,
        interrupted: bool,
    ) -> Self {
        let figures: BTreeMap<&str, Option<Figures>> = contenders
            .iter()
            .map(|contender| {
                let slices: Vec<&Slice> = saved
                    .slices(&contender.entry.name)
                    .map(|(_, slice)| slice)
                    .collect();
                // Wrong answers leave no figure, whatever was measured before.
                let figures = contender
                    .failure()
                    .is_none()
                    .then(|| Figures::of(&slices))
                    .flatten();
                (contender.entry.name.as_str(), figures)
            })
            .collect();
        let measured = |name: &str| figures.get(name).and_then(Option::as_ref);
        let ratio_of = |name: &str, of: &str, figure: fn(&Slice) -> Option<f64>| {
            measured(name).and(measured(of))?;
            let pairs: Vec<(f64, f64)> = saved
                .slices(name)
                .filter_map(|(round, slice)| Some((figure(slice)?, figure(saved.slice(of, round)?)?)))
                .collect();
            ratio_of_pairs(&pairs)
        };
        let rows = contenders.iter().map(|contender| {
            let entry = contender.entry;
            let figures = measured(&entry.name);
            let base = entry.base.as_deref();
            let cpu_us = |name: &str| measured(name).and_then(Figures::cpu_us);
            let bars: Vec<BarResult> = entry
                .bars
                .iter()
                .map(|bar| BarResult {
                    ratio: match bar.limit {
                        Limit::AtLeast(_) => ratio_of(&entry.name, &bar.of, |slice| Some(slice.per_second)),
                        Limit::CpuAtMost(_) => ratio_of(&entry.name, &bar.of, Slice::cpu_us),
                    },
                    bar: bar.clone(),
                })
                .collect();
            let mut notes: Vec<String> = contender.failure().map(ToOwned::to_owned).into_iter().collect();
            let busy = figures.is_some().then(|| others(entry, saved)).flatten();
            notes.extend(busy.map(|share| format!("others used {:.0} % of the machine", share * 100.0)));
            if figures.is_some() && generator_was_full(entry, saved) {
                notes.push("the load generator used all of its cores: the server may be faster".to_owned());
            }
            let lacks_disk = figures.is_some() && contender.lacks_disk();
            if lacks_disk {
                notes.push("temporary files lie in memory, where nothing is durable; TMPDIR names a folder on a disk".to_owned());
            }
            let verdict = match () {
                () if contender.skipped().is_some() => Verdict::Skipped,
                () if contender.failure().is_some() => Verdict::Failed,
                () if figures.is_none() => Verdict::Missing,
                () if busy.is_some() => Verdict::Busy,
                () if lacks_disk => Verdict::Measured,
                () => judged(&bars),
            };
            Row {
                name: entry.name.clone(),
                is_peer: contender.is_peer,
                base: entry.base.clone(),
                request: request(entry),
                ratio_to_base: base
                    .and_then(|base| ratio_of(&entry.name, base, |slice| Some(slice.per_second))),
                hop_us: base.and_then(|base| Some(cpu_us(&entry.name)? - cpu_us(base)?)),
                figures: figures.cloned(),
                bars,
                verdict,
                notes,
                curve: saved
                    .best(&entry.name)
                    .map(|best| best.curve.clone())
                    .unwrap_or_default(),
            }
        });
        let compared = |row: &Published, rows: &[Published]| {
            let figures = measured(&row.rung);
            let baseline = rows.iter().find(|other| row.of.as_ref() == Some(&other.row));
            Compared {
                published: row.clone(),
                published_ratio: baseline.map(|baseline| row.per_second / baseline.per_second),
                per_second: figures.map(|figures| figures.per_second),
                mean_ms: figures.and_then(|figures| figures.mean_ms),
                ratio: baseline
                    .and_then(|baseline| ratio_of(&row.rung, &baseline.rung, |slice| Some(slice.per_second))),
            }
        };
        let tables = suite.tables.iter().map(|table| ComparedTable {
            title: table.title.clone(),
            rows: table.rows.iter().map(|row| compared(row, &table.rows)).collect(),
        });
        let rows: Vec<Row> = rows.collect();
        Self {
            name: suite.name.clone(),
            environment: Machine::this().environment(),
            programs,
            settings: settings.clone(),
            tables: tables.collect(),
            curves: suite
                .curves
                .iter()
                .map(|curve| MeasuredCurve::of(curve, &rows))
                .filter(|curve| !curve.points.is_empty())
                .collect(),
            rows,
            took,
            interrupted,
        }
    }
}

/// The ratio of pairs. An interval of two or three of them would say nothing: the lowest and the highest pair stand in its place.
fn ratio_of_pairs(pairs: &[(f64, f64)]) -> Option<Ratio> {
    if pairs.len() >= PAIRS_MIN {
        return ratio(pairs);
    }
    let ratios = pairs.iter().map(|(a, b)| a / b).filter(|ratio| ratio.is_normal());
    let ratios: Vec<f64> = ratios.collect();
    let value = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
    (!ratios.is_empty()).then(|| Ratio {
        value,
        low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
        high: ratios.iter().copied().fold(0.0, f64::max),
        pairs: ratios.len(),
    })
}

/// The verdict of all bars: that of the worst.
fn judged(bars: &[BarResult]) -> Verdict {
    let verdicts: Vec<Verdict> = bars.iter().filter_map(BarResult::verdict).collect();
    let is = |verdict| verdicts.contains(&verdict);
    match () {
        () if is(Verdict::Misses) => Verdict::Misses,
        () if is(Verdict::Undecided) => Verdict::Undecided,
        () if is(Verdict::Holds) => Verdict::Holds,
        () => Verdict::Measured,
    }
}

/// The share of the machine that others used, if that was much. A database is no part of the server's processes, and no other either.
fn others(entry: &Entry, saved: &Saved) -> Option<f64> {
    let slices = saved
        .slices(&entry.name)
        .filter_map(|(_, slice)| slice.others_share);
    let mut shares: Vec<f64> = slices
        .filter(|_| !entry.needs.iter().any(|need| need == "pg"))
        .collect();
    shares.sort_by(f64::total_cmp);
    let median = *shares.get(shares.len() / 2)?;
    (median > OTHERS_MAX).then_some(median)
}

/// Whether the load generator had no time left in most slices.
fn generator_was_full(entry: &Entry, saved: &Saved) -> bool {
    let threads = (std::thread::available_parallelism().map_or(1, usize::from) / 2).max(1) as f64;
    let (full, all) = saved.slices(&entry.name).fold((0, 0), |(full, all), (_, slice)| {
        (
            full + usize::from(slice.client_cores > CLIENT_FULL * threads),
            all + 1,
        )
    });
    full * 2 > all
}

fn request(entry: &Entry) -> String {
    match &entry.measure {
        Some(measure) => measure.command[0].clone(),
        None => format!(
            "{} {}",
            if entry.body.is_some() { "POST" } else { "GET" },
            entry.path
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_are_certain_when_all_of_them_agree() {
        let bar = |pairs: &[(f64, f64)], limit| {
            let bar = Bar {
                of: "base".to_owned(),
                limit,
            };
            BarResult {
                bar,
                ratio: ratio_of_pairs(pairs),
            }
            .verdict()
        };
        let pairs = [(60.0, 100.0), (70.0, 100.0)];
        assert_eq!(bar(&pairs, Limit::AtLeast(0.5)), Some(Verdict::Holds));
        assert_eq!(bar(&pairs, Limit::AtLeast(0.65)), Some(Verdict::Undecided));
        assert_eq!(bar(&pairs, Limit::AtLeast(0.8)), Some(Verdict::Misses));
        assert_eq!(bar(&pairs, Limit::CpuAtMost(0.8)), Some(Verdict::Holds));
        assert_eq!(bar(&[], Limit::AtLeast(0.5)), None);
        let many = ratio_of_pairs(&[(1.0, 2.0), (1.1, 2.0), (0.9, 2.0), (1.0, 2.0)]).unwrap();
        assert!(many.low < 0.5 && many.high > 0.5 && many.pairs == 4, "{many:?}");
    }
}
