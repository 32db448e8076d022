//! The tables on the screen.

use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Text},
    widgets::{self, Paragraph, Row},
};
use serde_json::Value;

use super::{
    sample::{Interval, Sample},
    tables::{Cell, Table},
};
use crate::{
    commands::status::{memory, micros, uptime},
    control::ControlError,
};

const CLASSES: [&str; 5] = ["2xx", "3xx", "4xx", "5xx", "gone"];
const KEYS: &str = "q quit  p pause  Tab table  \u{2190}\u{2192} sort by  r reverse  \u{2191}\u{2193} scroll";

/// Least width of a column, so that columns stand still while figures change.
const WIDTH_MIN: usize = 6;
/// Least width of the first column.
const NAME_WIDTH_MIN: u16 = 12;
/// Between two columns.
const SPACING: u16 = 2;

const ROUTES: Table = Table::new(
    &[
        "ROUTE", "REQ/S", "2xx/S", "3xx/S", "4xx/S", "5xx/S", "GONE/S", "p50", "p99",
    ],
    1,
);
const POOLS: Table = Table::new(
    &[
        "POOL",
        "STATE",
        "WORKERS",
        "BUSY",
        "QUEUE",
        "JOBS/S",
        "FAILED/S",
        "REFUSED/S",
        "MEMORY",
        "RUN p50",
        "p99",
        "WAIT p99",
    ],
    5,
);
const WORKERS: Table = Table::new(&["WORKER", "PROCESS", "STATE", "JOBS", "ANSWERED", "MEMORY"], 3);

/// The figures of the last interval, and how they are shown.
#[derive(Debug)]
pub(super) struct View {
    interval: Interval,
    /// Why the last sample is missing.
    failure: Option<ControlError>,
    header: Vec<String>,
    /// Routes, pools and workers.
    tables: [Table; 3],
    /// The table that keys are about.
    chosen: usize,
    in_colour: bool,
}

impl View {
    pub(super) fn new(interval: Interval, in_colour: bool) -> Self {
        let mut view = Self {
            interval,
            failure: None,
            header: Vec::new(),
            tables: [ROUTES, POOLS, WORKERS],
            chosen: 0,
            in_colour,
        };
        view.fill();
        view
    }

    /// Takes a sample over. While the view is paused, what it shows stays.
    pub(super) fn update(&mut self, sample: Result<Sample, ControlError>, is_paused: bool) {
        match sample {
            Ok(sample) => {
                self.interval.advance(sample);
                self.failure = None;
            }
            Err(error) => self.failure = Some(error),
        }
        if !is_paused {
            self.fill();
        }
    }

    /// Chooses the next table that has rows.
    pub(super) fn next_table(&mut self) {
        for _ in 0..self.tables.len() {
            self.chosen = (self.chosen + 1) % self.tables.len();
            if !self.table().rows.is_empty() {
                return;
            }
        }
    }

    /// The table that keys are about.
    pub(super) fn table(&mut self) -> &mut Table {
        &mut self.tables[self.chosen]
    }

    fn fill(&mut self) {
        self.header = header(&self.interval);
        let [routes_table, pools_table, workers_table] = &mut self.tables;
        routes_table.fill(routes(&self.interval));
        pools_table.fill(pools(&self.interval));
        workers_table.fill(workers(&self.interval));
    }

    pub(super) fn draw(&mut self, frame: &mut Frame<'_>, is_paused: bool) {
        let header: Text<'_> = self.header.iter().map(String::as_str).collect();
        // The heading of a table, a line between two, and what the first one leaves.
        let room = |table: &Table| {
            let rows = u16::try_from(table.rows.len()).unwrap_or(u16::MAX);
            if rows == 0 { 0 } else { rows.saturating_add(2) }
        };
        let [_, of_pools, of_workers] = self.tables.each_ref().map(room);
        let below = of_pools.saturating_add(of_workers);
        let below = below.min(frame.area().height / 2);
        let of_pools = of_pools.min(below);
        let [top, routes, pools, workers, footer] = Layout::vertical([
            Constraint::Length(self.header.len() as u16 + 1),
            Constraint::Fill(1),
            Constraint::Length(of_pools),
            Constraint::Length(below - of_pools),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(header), top);
        for (place, area) in [routes, pools, workers].into_iter().enumerate() {
            self.draw_table(frame, place, area);
        }
        let (text, style) = match &self.failure {
            Some(error) => (format!("{error}; trying again"), self.style(Color::Red)),
            None if is_paused => (format!("PAUSED  {KEYS}"), self.style(Color::Yellow)),
            None => (KEYS.to_owned(), Style::new()),
        };
        frame.render_widget(Paragraph::new(text).style(style), footer);
    }

    fn draw_table(&mut self, frame: &mut Frame<'_>, place: usize, area: Rect) {
        let (is_chosen, red) = (place == self.chosen, self.style(Color::Red));
        let table = &mut self.tables[place];
        if table.rows.is_empty() {
            return;
        }
        let (heading, column) = (table.heading, table.column);
        let is_failing = |column: usize, cell: &Cell| {
            matches!(heading[column], "5xx/S" | "FAILED/S") && cell.number.is_some_and(|number| number > 0.0)
        };
        let aligned = |column: usize, text: String| {
            let is_name = matches!(heading[column], "ROUTE" | "POOL" | "WORKER" | "STATE");
            let alignment = if is_name {
                Alignment::Left
            } else {
                Alignment::Right
            };
            Line::from(text).alignment(alignment)
        };
        let width = |column: usize, rows: &[Vec<Cell>]| {
            let cells = rows.iter().map(|row| row[column].text.chars().count());
            let widest = cells.chain([heading[column].len(), WIDTH_MIN]).max();
            widest.unwrap_or_default() as u16
        };
        // The heading and the empty line below the rows need two lines.
        let rows = table.page(usize::from(area.height.saturating_sub(2)));
        // Columns on the right for which there is no room are left out.
        let mut room = area.width.saturating_sub(NAME_WIDTH_MIN);
        let widths = (1..heading.len()).map(|column| width(column, rows));
        let widths: Vec<_> = widths
            .map_while(|width| {
                room = room.checked_sub(width + SPACING)?;
                Some(Constraint::Length(width))
            })
            .collect();
        let shown = widths.len() + 1;
        let widths = [Constraint::Fill(1)].into_iter().chain(widths);
        let titles = heading.iter().take(shown).enumerate().map(|(at, title)| {
            let modifier = if is_chosen && at == column {
                Modifier::REVERSED
            } else {
                Modifier::BOLD
            };
            let style = Style::new().add_modifier(modifier);
            widgets::Cell::new(aligned(at, (*title).to_owned())).style(style)
        });
        let lines = rows.iter().map(|row| {
            Row::new(row.iter().take(shown).enumerate().map(|(at, cell)| {
                let style = if is_failing(at, cell) { red } else { Style::new() };
                widgets::Cell::new(aligned(at, cell.text.clone())).style(style)
            }))
        });
        let drawn = widgets::Table::new(lines, widths)
            .header(Row::new(titles))
            .column_spacing(SPACING);
        frame.render_widget(drawn, area);
    }

    fn style(&self, colour: Color) -> Style {
        if self.in_colour {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }
}

fn header(interval: &Interval) -> Vec<String> {
    let status = &interval.now.status;
    let listen: Vec<&str> = list(&status["listen"]).filter_map(Value::as_str).collect();
    let names: Vec<&str> = list(&status["routes"])
        .filter_map(|route| route["route"].as_str())
        .collect();
    let requests = |classes: &[&str]| {
        let rates = names.iter().flat_map(|name| {
            let rate =
                |class: &&str| interval.rate("forebay_requests_total", &[("route", name), ("class", class)]);
            classes.iter().map(rate)
        });
        rates.sum::<Option<f64>>()
    };
    let [p50, p99] = interval.quantiles("forebay_request_duration_seconds", "route", &names, [0.5, 0.99]);
    let cpu = interval.rate("process_cpu_seconds_total", &[]);
    let rate = |name: &str| shown(interval.rate(name, &[]), per_second);
    let on = if listen.is_empty() { "" } else { " on " };
    let mut lines = vec![
        format!(
            "forebay {}, pid {}, {}{on}{}, up {}, configuration {}",
            status["version"].as_str().unwrap_or("-"),
            status["pid"],
            status["state"].as_str().unwrap_or("-"),
            listen.join(", "),
            uptime(&status["uptime_s"]),
            status["generation"],
        ),
        format!(
            "{} requests/s, p50 {}, p99 {}, {} 5xx/s, {} connections, CPU {}, memory {}",
            shown(requests(&CLASSES), per_second),
            shown(p50, duration),
            shown(p99, duration),
            shown(requests(&["5xx"]), per_second),
            status["connections"]["open"],
            shown(cpu, |cores| format!("{:.0} %", cores * 100.0)),
            memory(&status["process"]["rss_bytes"]),
        ),
    ];
    let store = &status["store"];
    if !store.is_null() {
        let writes = interval.rate("forebay_store_writes_total", &[("outcome", "done")]);
        lines.push(format!(
            "store {} of {}, {} writes/s in {} commits/s, {} of {} writes wait, {} readers",
            memory(&store["file"]["bytes"]),
            memory(&store["file"]["bytes_max"]),
            shown(writes, per_second),
            rate("forebay_store_commits_total"),
            store["queue"]["writes"],
            store["queue"]["writes_max"],
            store["file"]["readers"],
        ));
    }
    lines
}

fn routes(interval: &Interval) -> Vec<Vec<Cell>> {
    let names = list(&interval.now.status["routes"]).filter_map(|route| route["route"].as_str());
    let row = |name: &str| {
        let rates = CLASSES
            .map(|class| interval.rate("forebay_requests_total", &[("route", name), ("class", class)]));
        let times = interval.quantiles("forebay_request_duration_seconds", "route", &[name], [0.5, 0.99]);
        let all = rates.into_iter().sum::<Option<f64>>();
        let counts = [all]
            .into_iter()
            .chain(rates)
            .map(|rate| Cell::number(rate, per_second));
        let times = times.map(|time| Cell::number(time, duration));
        [Cell::text(name)]
            .into_iter()
            .chain(counts)
            .chain(times)
            .collect()
    };
    names.map(row).collect()
}

fn pools(interval: &Interval) -> Vec<Vec<Cell>> {
    let row = |pool: &Value| {
        let name = pool["name"].as_str().unwrap_or_default();
        let of_pool = [("pool", name)];
        let workers = || list(&pool["workers"]);
        let ready = workers().filter(|worker| worker["phase"] == "ready").count();
        let busy = workers()
            .filter(|worker| worker["in_flight"].as_u64() > Some(0))
            .count();
        // The metrics have a series for each reason.
        let by_reason = |counter: &str| {
            let reasons = pool["counters"][counter].as_object()?.keys();
            let family = format!("forebay_pool_jobs_{counter}_total");
            let rates = reasons.map(|reason| interval.rate(&family, &[("pool", name), ("reason", reason)]));
            // Without a reason the sum is 0, but not before rates are known.
            interval.rate("forebay_pool_jobs_answered_total", &of_pool)?;
            rates.sum::<Option<f64>>()
        };
        let [wait] = interval.quantiles("forebay_pool_wait_seconds", "pool", &[name], [0.99]);
        let [p50, p99] = interval.quantiles("forebay_pool_run_seconds", "pool", &[name], [0.5, 0.99]);
        let size = |bytes: f64| memory(&Value::from(bytes as u64));
        vec![
            Cell::text(name),
            Cell::text(pool["readiness"]["state"].as_str().unwrap_or("-")),
            Cell::number(Some(ready as f64), |ready| {
                format!("{ready}/{}", pool["workers_max"])
            }),
            Cell::number(Some(busy as f64), |busy| busy.to_string()),
            Cell::number(pool["queued"].as_f64(), |queued| {
                format!("{queued}/{}", pool["queue_max"])
            }),
            Cell::number(
                interval.rate("forebay_pool_jobs_answered_total", &of_pool),
                per_second,
            ),
            Cell::number(by_reason("failed"), per_second),
            Cell::number(by_reason("refused"), per_second),
            Cell::number(
                interval.value("forebay_pool_workers_resident_memory_bytes", &of_pool),
                size,
            ),
            Cell::number(p50, duration),
            Cell::number(p99, duration),
            Cell::number(wait, duration),
        ]
    };
    list(&interval.now.status["pools"]).map(row).collect()
}

fn workers(interval: &Interval) -> Vec<Vec<Cell>> {
    let status = &interval.now.status;
    let row = |pool: &Value, worker: &Value| {
        let count = |name: &str| Cell::number(worker[name].as_f64(), |count| count.to_string());
        vec![
            Cell::text(format!(
                "{} {}",
                pool["name"].as_str().unwrap_or_default(),
                worker["id"]
            )),
            match worker["host"].as_str() {
                Some(host) => Cell::text(host),
                None => count("pid"),
            },
            Cell::text(worker["phase"].as_str().unwrap_or("-")),
            count("in_flight"),
            count("answered"),
            Cell::number(worker["rss_bytes"].as_f64(), |_| memory(&worker["rss_bytes"])),
        ]
    };
    let pools = list(&status["pools"]).chain(list(&status["retiring"]));
    pools
        .flat_map(|pool| list(&pool["workers"]).map(move |worker| row(pool, worker)))
        .collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn shown(number: Option<f64>, show: impl FnOnce(f64) -> String) -> String {
    number.map_or_else(|| "-".to_owned(), show)
}

fn per_second(rate: f64) -> String {
    match rate {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

/// As `forebay status` shows durations.
fn duration(seconds: f64) -> String {
    micros((seconds * 1e6) as u64)
}
