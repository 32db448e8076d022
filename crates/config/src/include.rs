//! `include` adds the pools, scripts, databases and routes of other files, as if they were part of the main file.
//!
//! Sections that exist once per server belong in the main file only, so an included file has none of them, and no `include` of its own. A
//! name defined in two files is an error rather than an override, so that each file can be understood alone.

use std::path::PathBuf;

use crate::build::SECTIONS;
use crate::error::Noted;
use crate::fields::{Fields, Spot};
use crate::key::Shape;
use crate::places::Places;
use crate::read::{Sections, read};
use crate::read_bounded;

/// Most files that a configuration can include.
const INCLUDED_MAX: usize = 64;

/// Adds the sections of all the named files. The error lists every problem within these files and every conflict between them.
pub(crate) fn include(
    mut sections: Sections,
    places: &mut Places,
    env: &dyn Fn(&str) -> Option<String>,
) -> Result<Sections, Vec<Noted>> {
    let mut noted = Vec::new();
    let files = std::mem::take(&mut sections.include);
    if let Some(Spot { line, .. }) = files.get(INCLUDED_MAX) {
        let message = format!("found {} files, expected at most {INCLUDED_MAX}", files.len());
        return Err(vec![problem(*line, message)]);
    }
    for spot in files {
        let file: PathBuf = places.folder(spot.line).join(&spot.text).components().collect();
        let text = match read_bounded(&file) {
            Ok(text) => text,
            Err(error) => {
                let message = format!("cannot read `{}`: {error}", file.display());
                noted.push(problem(spot.line, message));
                continue;
            }
        };
        let before = places.add(&file, &text);
        match read(&text, before, env) {
            Ok(added) => add(&mut sections, added, places, &mut noted),
            Err(problems) => noted.extend(problems),
        }
    }
    if noted.is_empty() {
        Ok(sections)
    } else {
        Err(noted)
    }
}

fn problem(line: usize, message: String) -> Noted {
    Noted {
        line,
        key: "include".to_owned(),
        suggestion: None,
        message,
    }
}

fn add(sections: &mut Sections, mut added: Sections, places: &Places, noted: &mut Vec<Noted>) {
    if let Some(first) = added.include.first() {
        let message = "a file that is included includes no others".to_owned();
        noted.push(problem(first.line, message));
    }
    for (section, line) in std::mem::take(&mut added.once) {
        noted.push(Noted {
            line,
            key: section.to_owned(),
            suggestion: None,
            message: "a file that is included has no such section: it stands in the one that includes it"
                .to_owned(),
        });
    }
    for section in SECTIONS.iter().filter(|section| section.shape != Shape::Once) {
        let here = sections.tables.entry(section.name).or_default();
        for (name, fields) in added.tables.remove(section.name).unwrap_or_default() {
            let is_it = |(other, _): &&(String, Fields)| *other == name && section.shape != Shape::Repeated;
            match here.iter().find(is_it) {
                Some((_, other)) => noted.push(taken(&fields, other, places)),
                None => here.push((name, fields)),
            }
        }
    }
}

fn taken(fields: &Fields, other: &Fields, places: &Places) -> Noted {
    fields.whole_problem(format!(
        "the name is taken on {}",
        places.said(other.line, fields.line)
    ))
}
