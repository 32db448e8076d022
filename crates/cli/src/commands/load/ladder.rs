//! `--preset tfb`: TechEmpower's ladder, over one URL or over the routes of all its tests.

use std::{fmt::Write as _, time::Duration};

use forebay_load::{
    Session, Url,
    engine::{Stretch, Until, exchange},
    plan::{Load, Pace},
    report::Report,
    search::{Point, WarmUp, warm_up},
    techempower::{self, Levels, Rung, Test},
};
use serde_json::{Value, json};

use super::{
    LoadError,
    arguments::Options,
    interrupt::Interrupt,
    plan::{self, Job, Surroundings},
    searches::{Finding, SETTLE, ms, point_json, row},
    tried::Tried,
};
use crate::{failure::UsageError, output};

/// Whether the ladder goes over the routes of all tests: the URL names a server, and no route of it.
pub(crate) fn is_of_all_routes(options: &Options) -> bool {
    let names_server = |url: &String| Url::parse(url).is_ok_and(|url| url.path_and_query == "/");
    options.preset.is_some() && options.url.len() == 1 && names_server(&options.url[0])
}

/// What does not go with the routes of all tests, or only with them.
pub(crate) fn check(options: &Options) -> Result<(), UsageError> {
    let all = is_of_all_routes(options);
    let of_routes = [
        (!options.tests.is_empty(), "--tests"),
        (!options.levels.is_empty(), "--levels"),
        (!options.rows.is_empty(), "--rows"),
    ];
    let own = [
        (options.pipeline.is_some(), "--pipeline"),
        (options.http2, "--http2"),
        (options.method.is_some(), "--method"),
        (!options.agents.is_empty(), "--agents"),
    ];
    let refused =
        |words: &[(bool, &'static str)]| words.iter().find(|(asked, _)| *asked).map(|(_, name)| *name);
    match (all, refused(&of_routes), refused(&own)) {
        (false, Some(name), _) => Err(UsageError(format!(
            "{name} is for the routes of all tests: give the URL of the server alone, such as http://localhost:8080/"
        ))),
        (true, _, Some(name)) => Err(UsageError(format!(
            "{name} is what the tests of tfb decide; the URL of one route, such as http://localhost:8080/db, takes it"
        ))),
        _ => Ok(()),
    }
}

fn closed(connections: usize) -> Load {
    Load {
        connections,
        pace: Pace::Closed,
    }
}

fn length(options: &Options) -> Duration {
    options.duration.unwrap_or(techempower::RUNG)
}

/// A primer on few connections, then as long as a rung on the most.
fn prime(session: &mut Session, options: &Options, most: usize) {
    let rung = length(options);
    let (primer, time) = techempower::PRIMER;
    let last = options.warmup.unwrap_or(WarmUp::For(rung));
    for (connections, time) in [(primer.min(most), WarmUp::For(time.min(rung))), (most, last)] {
        warm_up(session, closed(connections), time, &mut |_| {});
        session.pause();
    }
}

/// The rungs over one URL: the best counts.
pub(super) fn of_one(
    options: &Options,
    mut session: Session,
    tries: &mut Tried,
    tell: &dyn Fn(String),
) -> Finding {
    let ladder = techempower::CONNECTIONS;
    prime(&mut session, options, ladder[ladder.len() - 1]);
    let mut points = Vec::new();
    for connections in ladder {
        let stretch = session.measure(closed(connections), Until::passed(length(options)), &mut |_| {});
        let point = Point::of(&stretch);
        tell(row(&point));
        tries.add(&stretch);
        points.push(point);
        if stretch.interrupted {
            break;
        }
    }
    session.finish();
    let best = points.iter().max_by(|a, b| a.per_second.total_cmp(&b.per_second));
    let mut text = String::new();
    for point in &points {
        let _ = writeln!(text, "{}", row(point));
    }
    if let Some(best) = best {
        let _ = writeln!(
            text,
            "\nBest: {:.0} answers/s with {} connections",
            best.per_second, best.load.connections
        );
    }
    Finding {
        text,
        json: json!({"preset": "tfb", "rungs": points.iter().map(point_json).collect::<Vec<_>>(), "best": best.map(point_json)}),
    }
}

/// What came of one test.
struct Tested {
    test: Test,
    /// A target whose answer is wrong, and what is wrong with it. Nothing is measured then.
    wrong: Option<(String, String)>,
    rungs: Vec<Measured>,
}

struct Measured {
    rung: Rung,
    point: Point,
    requests: u64,
    errors: u64,
    /// The first of them.
    example: Option<String>,
}

/// What came of all tests.
pub(crate) struct Ladder {
    tested: Vec<Tested>,
    interrupted: bool,
    reports: Vec<Report>,
    url: String,
    rung: Duration,
}

/// The ladder over the routes of all tests: each is checked, primed, warmed up and measured, one after the other.
pub(crate) fn of_all(
    options: &Options,
    around: &Surroundings<'_>,
    interrupt: &Interrupt,
) -> anyhow::Result<Ladder> {
    let server = Url::parse(&options.url[0])?;
    let climb = Climb {
        options,
        around,
        interrupt,
        server: &server,
        levels: Levels {
            connections: options.levels.clone(),
            rows: options.rows.clone(),
        },
    };
    let tests: &[Test] = match options.tests.as_slice() {
        [] => &Test::ALL,
        wanted => wanted,
    };
    // Whatever the system has no room for is said before the first request.
    for test in tests {
        climb.jobs(*test)?;
    }
    let mut ladder = Ladder {
        tested: Vec::new(),
        interrupted: false,
        reports: Vec::new(),
        url: server.to_string(),
        rung: length(options),
    };
    for test in tests {
        let tested = climb.test(*test, &mut ladder.reports)?;
        ladder.tested.extend(tested);
        ladder.interrupted = interrupt.came();
        if ladder.interrupted {
            break;
        }
    }
    Ok(ladder)
}

struct Climb<'a> {
    options: &'a Options,
    around: &'a Surroundings<'a>,
    interrupt: &'a Interrupt,
    server: &'a Url,
    levels: Levels,
}

impl Climb<'_> {
    fn tell(&self, text: &str) {
        if !self.options.quiet {
            output::complaint(text);
        }
    }

    /// A job for a path of the server.
    fn job(&self, test: Test, path: String, connections: usize) -> anyhow::Result<Job> {
        let mut url = self.server.clone();
        url.path_and_query = path;
        let options = Options {
            url: vec![url.to_string()],
            preset: None,
            connections: Some(connections),
            pipeline: Some(test.pipeline()),
            // A few of the benchmarks' connections need fewer threads than were asked for.
            threads: self.options.threads.map(|threads| threads.min(connections)),
            ..self.options.clone()
        };
        plan::job(&options, self.around)
    }

    /// Its jobs with their rungs: rungs that ask for the same share one.
    fn jobs(&self, test: Test) -> anyhow::Result<Vec<(Job, Vec<Rung>)>> {
        let mut jobs: Vec<(Job, Vec<Rung>)> = Vec::new();
        let rungs = test.rungs(&self.levels);
        let most = rungs.iter().map(|rung| rung.connections).max().unwrap_or(1);
        for rung in rungs {
            match jobs.last_mut() {
                Some((_, same)) if same[0].rows == rung.rows => same.push(rung),
                _ => jobs.push((self.job(test, test.path(rung.rows), most)?, vec![rung])),
            }
        }
        Ok(jobs)
    }

    /// `None`: the server does not have what the benchmarks do not have, either, and nobody asked for.
    fn test(&self, test: Test, reports: &mut Vec<Report>) -> anyhow::Result<Option<Tested>> {
        let mut tested = Tested {
            test,
            wrong: None,
            rungs: Vec::new(),
        };
        for probe in test.probes() {
            let answer = match exchange(&self.job(test, probe.clone(), 1)?.plan) {
                Ok(exchange) => exchange.received,
                Err(error) => {
                    tested.wrong = Some((probe, super::lanes::usage(&error).to_string()));
                    break;
                }
            };
            let is_extra = !test.is_of_the_benchmarks() && self.options.tests.is_empty();
            if is_extra && Test::is_absent(&answer) {
                self.tell(&format!(
                    "{}: left out, the server has no such route, and the benchmarks have none, either",
                    test.name()
                ));
                return Ok(None);
            }
            if let Some(problem) = test.problem(&probe, &answer) {
                tested.wrong = Some((probe, problem));
                break;
            }
        }
        if let Some((target, problem)) = &tested.wrong {
            self.tell(&format!("{}: not measured, GET {target}: {problem}", test.name()));
            return Ok(Some(tested));
        }
        for (at, (job, rungs)) in self.jobs(test)?.into_iter().enumerate() {
            self.measure(at == 0, &job, &rungs, &mut tested, reports)?;
            if self.interrupt.came() {
                break;
            }
        }
        Ok(Some(tested))
    }

    fn measure(
        &self,
        is_first: bool,
        job: &Job,
        rungs: &[Rung],
        tested: &mut Tested,
        reports: &mut Vec<Report>,
    ) -> anyhow::Result<()> {
        let mut session = Session::start(job.plan.clone())?;
        self.interrupt.stops(session.stopper());
        let most = rungs.iter().map(|rung| rung.connections).max().unwrap_or(1);
        if is_first {
            self.tell(&format!("{}: warming up", tested.test.name()));
            prime(&mut session, self.options, most);
        } else {
            let settle = WarmUp::For(SETTLE.min(length(self.options)));
            warm_up(&mut session, closed(most), settle, &mut |_| {});
            session.pause();
        }
        let mut tries = Tried::new(job, self.options.forms.html.is_some());
        for rung in rungs {
            let until = Until::passed(length(self.options));
            let stretch = session.measure(closed(rung.connections), until, &mut |_| {});
            tries.add(&stretch);
            let measured = Measured::of(*rung, &stretch);
            self.tell(&measured.row(tested.test, ' '));
            tested.rungs.push(measured);
            if stretch.interrupted {
                break;
            }
        }
        session.finish();
        reports.extend(tries.reports());
        Ok(())
    }
}

impl Measured {
    fn of(rung: Rung, stretch: &Stretch) -> Self {
        let total = &stretch.total;
        Self {
            rung,
            point: Point::of(stretch),
            requests: total.answers + total.failures.without_answer(),
            errors: total.failures.total(),
            example: stretch.examples.first().map(|(_, text)| text.clone()),
        }
    }

    fn level(&self) -> String {
        let rows = match self.rung.rows {
            Some(1) => ", 1 row".to_owned(),
            Some(rows) => format!(", {rows} rows"),
            None => String::new(),
        };
        format!("{} connections{rows}", self.rung.connections)
    }

    fn row(&self, test: Test, mark: char) -> String {
        let Point {
            per_second,
            p50_ns,
            p99_ns,
            ..
        } = self.point;
        format!(
            "{mark}{:<15}{:<25}{per_second:>11.0}/s   p50 {:>9.3} ms   p99 {:>9.3} ms   errors {}",
            test.name(),
            self.level(),
            ms(p50_ns),
            ms(p99_ns),
            self.errors
        )
    }

    fn json(&self) -> Value {
        let mut json = point_json(&self.point);
        json["rows"] = self.rung.rows.into();
        json["requests"] = self.requests.into();
        json["errors"] = self.errors.into();
        json["first_error"] = self.example.clone().into();
        json
    }
}

impl Tested {
    /// The rung that counts: where rows are asked for the one with the most, otherwise the fastest.
    fn best(&self) -> Option<usize> {
        let by = |at: &usize| {
            let measured = &self.rungs[*at];
            (measured.rung.rows, measured.point.per_second)
        };
        (0..self.rungs.len()).max_by(|one, other| {
            let (one, other) = (by(one), by(other));
            one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
        })
    }

    /// Why it does not count.
    fn failure(&self) -> Option<String> {
        let name = self.test.name();
        if let Some((target, problem)) = &self.wrong {
            return Some(format!("{name}: the answer to GET {target} is wrong: {problem}"));
        }
        let errors: u64 = self.rungs.iter().map(|measured| measured.errors).sum();
        let first = self.rungs.iter().find(|measured| measured.errors > 0)?;
        let example = first.example.as_ref();
        Some(format!(
            "{name}: {errors} errors, the first with {}{}",
            first.level(),
            example.map_or(String::new(), |text| format!(": {text}"))
        ))
    }

    fn json(&self) -> Value {
        let best = self.best().map(|at| self.rungs[at].json());
        let wrong = self.wrong.as_ref();
        json!({
            "test": self.test.name(),
            "pipeline": self.test.pipeline(),
            "wrong": wrong.map(|(target, problem)| json!({"target": target, "problem": problem})),
            "rungs": self.rungs.iter().map(Measured::json).collect::<Vec<_>>(),
            "best": best,
        })
    }
}

impl Ladder {
    /// Prints it in the forms that are asked for. An error: a test does not count.
    pub(crate) fn print(self, options: &Options) -> anyhow::Result<()> {
        let mut text = String::new();
        for tested in &self.tested {
            let best = tested.best();
            for (at, measured) in tested.rungs.iter().enumerate() {
                let mark = if best == Some(at) { '*' } else { ' ' };
                let _ = writeln!(text, "{}", measured.row(tested.test, mark));
            }
        }
        let failures: Vec<String> = self.tested.iter().filter_map(Tested::failure).collect();
        for failure in &failures {
            let _ = writeln!(text, "{failure}");
        }
        if self.tested.iter().any(|tested| tested.best().is_some()) {
            let _ = writeln!(
                text,
                "\nA star marks what counts: the best rung, and where rows are asked for the one with the most."
            );
        }
        let json = json!({
            "preset": "tfb",
            "url": self.url,
            "rung_seconds": self.rung.as_secs_f64(),
            "tests": self.tested.iter().map(Tested::json).collect::<Vec<_>>(),
            "failures": failures,
        });
        super::searches::Outcome::print(&text, &json, self.interrupted, &self.reports, options)?;
        if failures.is_empty() || self.interrupted {
            return Ok(());
        }
        Err(LoadError::Tests {
            failed: failures.len(),
            all: self.tested.len(),
            first: failures[0].clone(),
        }
        .into())
    }
}
