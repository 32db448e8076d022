//! Measurements, and the file that keeps them, so that a run can be resumed. The file has a line of JSON for each: first the settings, then
//! slices and best numbers of connections as they are measured.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
};

use forebay_load::stats::encoded;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::{LadderError, run::Settings};

/// Measurements of a few seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Slice {
    /// Connections of the load.
    pub connections: usize,
    /// How long it lasted.
    pub seconds: f64,
    /// Right responses a second.
    pub per_second: f64,
    /// Latencies in nanoseconds.
    #[serde(with = "encoded")]
    pub latency: Histogram<u64>,
    /// CPU time of the server's own process for each request, in microseconds.
    pub server_us: Option<f64>,
    /// CPU time of its workers for each request, in microseconds.
    pub workers_us: Option<f64>,
    /// Cores that the load generator used.
    pub client_cores: f64,
    /// Share of the machine that others used.
    pub others_share: Option<f64>,
    /// The median latency that a program printed, in milliseconds.
    #[serde(default)]
    pub p50_ms: Option<f64>,
    /// The 99th percentile that a program printed, in milliseconds.
    #[serde(default)]
    pub p99_ms: Option<f64>,
}

impl Slice {
    /// CPU time of server and workers for each request, in microseconds.
    pub fn cpu_us(&self) -> Option<f64> {
        Some(self.server_us? + self.workers_us.unwrap_or(0.0))
    }
}

/// The best number of connections of an entry.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Best {
    /// The smallest number that brings almost the highest rate.
    pub connections: usize,
    /// Requests a second by number of connections.
    pub curve: Vec<(usize, f64)>,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Version and amounts, which all measurements of a file share.
    Settings(String),
    Slice {
        name: String,
        round: usize,
        slice: Box<Slice>,
    },
    Best {
        name: String,
        best: Best,
    },
}

/// All measurements so far, by entry.
#[derive(Debug, Default)]
pub struct Saved {
    slices: BTreeMap<String, BTreeMap<usize, Slice>>,
    best: BTreeMap<String, Best>,
    file: Option<(PathBuf, File)>,
}

impl Saved {
    /// Opens a file and reads what an earlier run with the same settings has measured.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self, LadderError> {
        let failed = |source| LadderError::Files {
            path: path.to_owned(),
            source,
        };
        let file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(path)
            .map_err(failed)?;
        let mut saved = Self::default();
        let told = told(settings);
        let mut known = false;
        let mut text = String::new();
        (&file).read_to_string(&mut text).map_err(failed)?;
        // A run that was killed may have left a part of a line.
        let (lines, part) = text.split_at(text.rfind('\n').map_or(0, |at| at + 1));
        for (number, line) in lines.lines().enumerate() {
            match serde_json::from_str(line) {
                Ok(Line::Settings(other)) if other == told => known = true,
                Ok(Line::Settings(other)) => {
                    return Err(LadderError::Other {
                        path: path.to_owned(),
                        other,
                        told,
                    });
                }
                Ok(Line::Slice { round, .. }) if round >= settings.rounds => {}
                Ok(Line::Slice { name, round, slice }) => {
                    saved.slices.entry(name).or_default().insert(round, *slice);
                }
                Ok(Line::Best { name, best }) => {
                    saved.best.insert(name, best);
                }
                Err(error) => {
                    return Err(LadderError::NotSaved {
                        path: path.to_owned(),
                        line: number + 1,
                        error,
                    });
                }
            }
        }
        if !known && !text.is_empty() {
            return Err(LadderError::Foreign {
                path: path.to_owned(),
            });
        }
        if !part.is_empty() {
            file.set_len(lines.len() as u64).map_err(failed)?;
        }
        saved.file = Some((path.to_owned(), file));
        if !known {
            saved.write(&Line::Settings(told))?;
        }
        Ok(saved)
    }

    pub(super) fn slice(&self, name: &str, round: usize) -> Option<&Slice> {
        self.slices.get(name)?.get(&round)
    }

    /// The slices of an entry by round.
    pub(super) fn slices(&self, name: &str) -> impl Iterator<Item = (usize, &Slice)> {
        self.slices
            .get(name)
            .into_iter()
            .flatten()
            .map(|(round, slice)| (*round, slice))
    }

    pub(super) fn is_complete(&self, name: &str, rounds: usize) -> bool {
        (0..rounds).all(|round| self.slice(name, round).is_some())
    }

    pub(super) fn best(&self, name: &str) -> Option<&Best> {
        self.best.get(name)
    }

    pub(super) fn put_slice(&mut self, name: &str, round: usize, slice: Slice) -> Result<(), LadderError> {
        let line = Line::Slice {
            name: name.to_owned(),
            round,
            slice: Box::new(slice.clone()),
        };
        self.slices
            .entry(name.to_owned())
            .or_default()
            .insert(round, slice);
        self.write(&line)
    }

    pub(super) fn put_best(&mut self, name: &str, best: Best) -> Result<(), LadderError> {
        let line = Line::Best {
            name: name.to_owned(),
            best: best.clone(),
        };
        self.best.insert(name.to_owned(), best);
        self.write(&line)
    }

    fn write(&mut self, line: &Line) -> Result<(), LadderError> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let mut text = serde_json::to_vec(line).expect("a line is plain data");
        text.push(b'\n');
        file.write_all(&text).map_err(|source| LadderError::Files {
            path: path.clone(),
            source,
        })
    }
}

/// The settings that measurements must share to be put into one report.
fn told(settings: &Settings) -> String {
    let connections = settings
        .connections
        .map_or("the best number of".to_owned(), |number| number.to_string());
    let closed = if settings.keep_alive {
        ""
    } else {
        ", each for one request"
    };
    format!(
        "server {}, slices of {} s after {} s, {connections} connections{closed}",
        version_of(&settings.server),
        settings.slice.as_secs_f64(),
        settings.settle.as_secs_f64()
    )
}

/// Identifies a build of the server by its version, its size and the time at which it was written.
fn version_of(server: &Path) -> String {
    let file = std::fs::metadata(server).ok();
    let written = file.as_ref().and_then(|file| file.modified().ok());
    let seconds = written.and_then(|written| written.duration_since(std::time::UNIX_EPOCH).ok());
    format!(
        "{} of {} bytes, written at {}",
        env!("CARGO_PKG_VERSION"),
        file.map_or(0, |file| file.len()),
        seconds.map_or(0, |seconds| seconds.as_secs())
    )
}

#[cfg(test)]
mod tests {
    use forebay_load::engine::latencies;

    use super::*;

    #[test]
    fn what_was_measured_is_there_again_and_other_settings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.jsonl");
        let quick = Settings::quick("forebay".into());
        let mut slice = Slice {
            connections: 64,
            seconds: 3.0,
            per_second: 1000.0,
            latency: latencies(),
            server_us: Some(6.5),
            workers_us: None,
            client_cores: 0.5,
            others_share: Some(0.01),
            p50_ms: None,
            p99_ms: None,
        };
        slice.latency.record(1_000_000).unwrap();
        let mut saved = Saved::open(&path, &quick).unwrap();
        saved.put_slice("file", 1, slice).unwrap();
        saved
            .put_best(
                "file",
                Best {
                    connections: 8,
                    curve: vec![(8, 1000.0)],
                },
            )
            .unwrap();
        let short = Settings {
            rounds: 1,
            ..quick.clone()
        };
        assert!(Saved::open(&path, &short).unwrap().slice("file", 1).is_none());
        let saved = Saved::open(&path, &quick).unwrap();
        let found = saved.slice("file", 1).unwrap();
        assert_eq!((found.per_second, found.latency.len()), (1000.0, 1));
        assert_eq!(saved.best("file").unwrap().connections, 8);
        assert!(!saved.is_complete("file", 2) && saved.slice("file", 0).is_none());
        let error = Saved::open(&path, &Settings::full("forebay".into()))
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("64 connections") && error.contains("the best number"),
            "{error}"
        );
        let cut = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &cut[..cut.len() - 5]).unwrap();
        assert!(
            Saved::open(&path, &quick).unwrap().best("file").is_none(),
            "the last line was cut"
        );
        for foreign in ["a text", "{\"a\":1}"] {
            std::fs::write(&path, foreign).unwrap();
            let error = Saved::open(&path, &quick).unwrap_err().to_string();
            assert!(error.contains("is not a saved run"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        std::fs::write(&path, "{}\n").unwrap();
        let error = Saved::open(&path, &quick).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
