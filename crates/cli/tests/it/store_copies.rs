//! `forebay store backup`, `restore`, `compact` and `verify`.

use std::{
    fmt::Write as _,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use forebay_testkit::{Folder, Process, wait_for, wait_until};
use rustix::process::Signal;

use crate::{
    store_nodes::{done, fed, store},
    terminal::Terminal,
};

fn file(folder: &Folder, data: &str) -> PathBuf {
    folder.path().join(data).join("store.mdbx")
}

/// Makes the file of the store in `data` much larger than its content.
fn bloat(folder: &Folder) {
    let long = format!("\"{}\"", "x".repeat(40 << 20));
    assert_eq!(fed(folder, &["set", "Bloat", "-"], &long).code, 0);
    done(folder, &["kill", "Bloat", "--yes"]);
}

#[test]
fn a_backup_restored_is_the_store_as_it_was() {
    let folder = Folder::new();
    done(&folder, &["set", "G", r#"{"a":[1,2],"b":"x"}"#]);
    bloat(&folder);
    done(&folder, &["backup", "whole"]);
    done(&folder, &["backup", "small", "--compact"]);
    done(&folder, &["set", "G/b", "0"]);
    let size = |data| fs::metadata(file(&folder, data)).unwrap().len();
    assert!(size("small") < size("data"), "{} {}", size("small"), size("data"));
    for backup in ["whole", "small"] {
        let target = format!("{backup}-again");
        let told = store(&folder, &["restore", backup, "--data", &target]);
        assert_eq!(told.code, 0, "{told:?}");
        assert_eq!(
            done(&folder, &["get", "G", "--data", &target]),
            "{\"a\":[1,2],\"b\":\"x\"}\n"
        );
        assert!(done(&folder, &["verify", "--data", &target]).starts_with("sound: "));
        for data in [backup, &target] {
            let mode = fs::metadata(file(&folder, data)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{data}");
        }
        done(&folder, &["set", "G/c", "1", "--data", &target]);
    }
    assert_eq!(done(&folder, &["get", "G"]), "{\"a\":[1,2],\"b\":0}\n");
}

#[test]
fn a_backup_and_the_log_of_changes_give_any_later_state() {
    let folder = Folder::new();
    done(&folder, &["set", "G/count", "1"]);
    done(&folder, &["backup", "copy"]);
    for count in 2..=5 {
        done(&folder, &["set", "G/count", &count.to_string()]);
    }
    done(&folder, &["kill", "G", "--yes"]);
    for (until, expected) in [("3", "3"), ("5", "5"), ("1", "1")] {
        let target = format!("until-{until}");
        let told = store(
            &folder,
            &[
                "restore",
                "copy",
                "--changes",
                "data",
                "--until",
                until,
                "--data",
                &target,
            ],
        );
        assert_eq!(told.code, 0, "{told:?}");
        let found = done(&folder, &["get", "G/count", "--data", &target]);
        assert_eq!(found.trim_end(), expected, "until {until}");
    }
    let all = store(
        &folder,
        &["restore", "copy", "--changes", "data", "--data", "all"],
    );
    assert_eq!(all.err, "all: 5 changes done again\nall: as of change 6\n");
    assert_eq!(store(&folder, &["get", "G", "--data", "all"]).code, 4);
    let late = ["--until", "2100-01-01T00:00:00+01:00", "--data", "late"];
    done(
        &folder,
        &[&["restore", "copy", "--changes", "data"], &late[..]].concat(),
    );
    assert_eq!(store(&folder, &["get", "G", "--data", "late"]).code, 4);
    for words in [&["--until", "3"][..], &["--changes", "data", "--until", "noon"]] {
        let wrong = store(&folder, &[&["restore", "copy", "--data", "x"], words].concat());
        assert_eq!(wrong.code, 2, "{wrong:?}");
    }
}

#[test]
fn a_restore_that_cannot_come_to_where_it_shall_is_refused_before_it_begins() {
    let folder = Folder::new();
    for count in 1..=3 {
        done(&folder, &["set", "G", &count.to_string()]);
    }
    done(&folder, &["backup", "copy"]);
    done(&folder, &["set", "G", "4"]);
    let no_log = |folder: &str| format!("there is no log of changes in {folder}");
    let cases: [(&[&str], String); 6] = [
        (&["--changes", "none"], no_log("none")),
        (&["--changes", "copy"], no_log("copy")),
        (&["--changes", "data/changes"], no_log("data/changes")),
        (
            &["--changes", "data", "--until", "2"],
            "the backup is as of change 3, after --until 2".into(),
        ),
        (
            &["--changes", "data", "--until", "2020-01-01T00:00:00Z"],
            "the backup is as of change 3, which was made after --until".into(),
        ),
        (
            &["--changes", "data", "--until", "5"],
            "the log of changes ends with change 4, before --until 5".into(),
        ),
    ];
    for (words, expected) in cases {
        let refused = store(&folder, &[&["restore", "copy", "--data", "new"], words].concat());
        assert_eq!(
            (refused.code, refused.err.lines().next()),
            (1, Some(format!("error: {expected}").as_str())),
            "{words:?}"
        );
        assert!(!folder.path().join("new").exists(), "{words:?}");
    }
}

#[test]
fn nothing_is_laid_over_what_is_there() {
    let folder = Folder::new();
    done(&folder, &["set", "G", "1"]);
    done(&folder, &["backup", "copy"]);
    done(&folder, &["set", "G", "2"]);
    for words in [
        &["backup", "copy"][..],
        &["restore", "copy"],
        &["restore", "data", "--data", "copy"],
    ] {
        let ended = store(&folder, words);
        assert_eq!(ended.code, 1, "{words:?}");
        assert!(
            ended.err.starts_with("error: the folder ") && ended.err.ends_with(" is not empty\n"),
            "{ended:?}"
        );
    }
    assert_eq!(done(&folder, &["get", "G", "--data", "copy"]), "1\n");
    assert_eq!(done(&folder, &["get", "G"]), "2\n");
    let absent = store(&folder, &["restore", "none", "--data", "new"]);
    assert_eq!(absent.code, 1);
    assert!(
        absent.err.starts_with("error: there is no store in none\n"),
        "{absent:?}"
    );
    assert!(!folder.path().join("new").exists());
}

#[test]
fn compacting_gives_space_back_and_changes_nothing_else() {
    let folder = Folder::new();
    done(&folder, &["set", "G", r#"{"a":[1,2]}"#]);
    bloat(&folder);
    let before = fs::metadata(file(&folder, "data")).unwrap().len();
    let told = store(&folder, &["compact"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(told.err.contains(" -> "), "{told:?}");
    let after = fs::metadata(file(&folder, "data")).unwrap();
    assert!(after.len() < before / 2, "{before} {}", after.len());
    assert_eq!(after.permissions().mode() & 0o777, 0o600);
    assert!(!folder.path().join("data/compact.tmp").exists());
    assert_eq!(done(&folder, &["get", "G"]), "{\"a\":[1,2]}\n");
    done(&folder, &["set", "G/b", "1"]);
    let again = store(&folder, &["compact"]);
    assert!(again.err.contains("there is nothing to gain"), "{again:?}");
    assert_eq!(done(&folder, &["get", "G"]), "{\"a\":[1,2],\"b\":1}\n");
}

#[test]
fn what_is_written_while_others_compact_is_never_lost() {
    let folder = Folder::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = Vec::new();
            for number in 0.. {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let path = format!("G/{number}");
                // Also where the file was replaced while it was being opened.
                done(&folder, &["set", &path, "1"]);
                written.push(number.to_string());
            }
            written
        });
        let mut swapped = 0;
        while swapped < 3 {
            bloat(&folder);
            let told = store(&folder, &["compact"]);
            swapped += u32::from(told.err.contains(" -> "));
        }
        over.store(true, Ordering::Relaxed);
        let written = writer.join().unwrap();
        assert!(!written.is_empty());
        let found: Vec<String> = done(&folder, &["ls", "G"]).lines().map(Into::into).collect();
        let lost: Vec<&String> = written.iter().filter(|number| !found.contains(number)).collect();
        assert!(lost.is_empty(), "{lost:?} of {}", written.len());
    });
    assert!(done(&folder, &["verify"]).starts_with("sound: "));
}

#[test]
fn a_flipped_bit_is_found_and_its_node_is_named() {
    let folder = Folder::new();
    let mut lines = String::new();
    for number in 0..2000 {
        writeln!(lines, "{{\"path\":[\"Person\",\"data\",{number}],\"document\":{{\"name\":\"Robin {number}\",\"tags\":[1,2]}}}}").unwrap();
    }
    assert_eq!(fed(&folder, &["import", "-"], &lines).code, 0);
    let sound = store(&folder, &["verify"]);
    assert_eq!((sound.code, sound.err.as_str()), (0, ""));
    assert!(
        sound.out.starts_with("sound: 2,000 entries in 1 global, "),
        "{sound:?}"
    );
    let bytes = fs::read(file(&folder, "data")).unwrap();
    for (wanted, offset, named) in [
        // A value; a byte of the key before it.
        (
            &b"{\"name\":\"Robin 1234\""[..],
            10_isize,
            Some("^Person(\"data\",1234): what is stored is not what was written"),
        ),
        (b"{\"name\":\"Robin 1234\"", -8, None),
    ] {
        let mut damaged = bytes.clone();
        let places: Vec<usize> = bytes
            .windows(wanted.len())
            .enumerate()
            .filter(|(_, found)| *found == wanted)
            .map(|(at, _)| at)
            .collect();
        assert!(!places.is_empty());
        for at in places {
            damaged[at.checked_add_signed(offset).unwrap()] ^= 4;
        }
        folder.write("damaged/store.mdbx", &damaged);
        let found = store(&folder, &["verify", "--data", "damaged"]);
        assert_eq!(found.code, 1, "{found:?}");
        assert!(
            found.err.starts_with("error: the store is damaged: "),
            "{found:?}"
        );
        if let Some(named) = named {
            assert!(found.out.starts_with(named), "{found:?}");
        }
        fs::remove_dir_all(folder.path().join("damaged")).unwrap();
    }
}

#[test]
fn a_bit_flipped_anywhere_is_found_or_changes_no_answer() {
    const SEED: u64 = 20_261_122;
    let folder = Folder::new();
    let mut lines = String::new();
    for number in 0..1500 {
        writeln!(
            lines,
            "{{\"path\":[\"G\",{number}],\"document\":{{\"name\":\"Robin {number}\",\"x\":[1,{number}]}}}}"
        )
        .unwrap();
    }
    assert_eq!(fed(&folder, &["import", "-"], &lines).code, 0);
    let export = done(&folder, &["export"]);
    let bytes = fs::read(file(&folder, "data")).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let mut random = SEED;
    let mut found = 0;
    for _ in 0..60 {
        // Knuth's generator; its upper bits are the good ones.
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(random >> 16).unwrap() % used;
        let bit = (random >> 11) % 8;
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << bit;
        folder.write("damaged/store.mdbx", &damaged);
        let ended = store(&folder, &["verify", "--data", "damaged"]);
        if ended.code == 0 {
            assert_eq!(
                done(&folder, &["export", "--data", "damaged"]),
                export,
                "byte {at} bit {bit}"
            );
        } else {
            assert_eq!(ended.code, 1, "byte {at} bit {bit}: {ended:?}");
            found += 1;
        }
        fs::remove_dir_all(folder.path().join("damaged")).unwrap();
    }
    assert!(found > 30, "{found} of 60, seed {SEED}");
}

/// Attempts to see the progress of a command that may be too fast for it.
const TRIES: usize = 30;

/// Runs a command on a terminal and pauses the process that does the work as soon as there is one, so that it takes long enough to show its
/// progress. Returns the screen; `None`: it was too fast for that.
fn held(
    folder: &Folder,
    words: &str,
    picture: &str,
    at_work: impl Fn(Process) -> Option<Process>,
) -> Option<String> {
    let line = format!("cd {} && exec FOREBAY store {words}", folder.path().display());
    let mut terminal = Terminal::run(&line, &[]);
    let mut was_there = false;
    let process = wait_for("the command to be at work", || {
        let command = terminal.process();
        was_there |= command.is_some();
        match command {
            Some(command) => at_work(command).map(Some),
            None => was_there.then_some(None),
        }
    })?;
    process.signal(Signal::STOP);
    let stopped = Instant::now();
    wait_until("a picture to be due", || {
        stopped.elapsed() > Duration::from_millis(300)
    });
    process.signal(Signal::CONT);
    // `script` stops when its child does.
    terminal.script().signal(Signal::CONT);
    let screen = terminal.end("");
    if !screen.contains(picture) {
        return None;
    }
    // The last progress bar is cleared.
    let after = screen
        .rsplit_once("\r\x1b[K")
        .expect("pictures take the place of others")
        .1;
    assert!(!after.contains('%'), "{screen:?}");
    Some(screen)
}

/// Whether anything has been written to a file.
fn is_begun(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|about| about.blocks() > 0)
}

#[test]
fn copying_shows_how_far_it_is_on_a_terminal() {
    let folder = Folder::new();
    done(&folder, &["set", "G", "1"]);
    let long = format!("\"{}\"", "x".repeat(60 << 20));
    for name in ["G/a", "G/b", "G/c"] {
        assert_eq!(fed(&folder, &["set", name, "-"], &long).code, 0);
    }
    done(&folder, &["backup", "copy"]);
    for (what, words, written) in [
        ("backup", "backup copyN", "copyN/store.mdbx"),
        ("restore", "restore copy --data newN", "newN/store.mdbx"),
        ("compact", "compact", "data/compact.tmp/made/store.mdbx"),
    ] {
        let seen = (0..TRIES).any(|at| {
            let at = at.to_string();
            let written = folder.path().join(written.replace('N', &at));
            let picture = format!("\r\x1b[K{what} [");
            let screen = held(&folder, &words.replace('N', &at), &picture, |command| {
                is_begun(&written).then_some(command)
            });
            for copy in ["copy", "new"] {
                let _ = fs::remove_dir_all(folder.path().join(format!("{copy}{at}")));
            }
            screen.is_some()
        });
        assert!(seen, "no picture of {what} in {TRIES} tries");
    }
    // Nothing of the kind without a terminal.
    let told = store(&folder, &["backup", "quiet"]);
    assert!(
        !told.err.contains('%') && told.err.starts_with("quiet: "),
        "{told:?}"
    );
}

#[test]
fn doing_changes_again_shows_how_many_they_are_on_a_terminal() {
    const CHANGES: u64 = 5000;
    let folder = Folder::new();
    done(&folder, &["set", "G", "0"]);
    done(&folder, &["backup", "copy"]);
    let mut lines = String::new();
    for at in 0..CHANGES {
        writeln!(lines, "set G/{at} 1").unwrap();
    }
    assert_eq!(fed(&folder, &["shell"], &lines).code, 0);
    let screen = (0..TRIES).find_map(|at| {
        let target = format!("new{at}");
        let log = folder.path().join(&target).join("changes");
        held(
            &folder,
            &format!("restore copy --changes data --data {target}"),
            " changes, ",
            |command| is_begun(&log.join("00000000000000000002.log")).then_some(command),
        )
    });
    let screen = screen.unwrap_or_else(|| panic!("no picture in {TRIES} tries"));
    let picture = screen
        .split("\r\x1b[K")
        .find(|picture| picture.contains(" changes, "))
        .unwrap();
    let (share, count) = picture.split_once(" % ").unwrap();
    assert!(share.starts_with("restore ["), "{picture:?}");
    let share: u64 = share.rsplit_once("] ").unwrap().1.parse().unwrap();
    let count = count.split_once(" changes, ").unwrap().0.replace(',', "");
    assert_eq!(
        share,
        count.parse::<u64>().unwrap() * 100 / CHANGES,
        "{picture:?}"
    );
    assert!(screen.contains("5000 changes done again"), "{screen:?}");
}

#[test]
fn verifying_shows_how_far_it_is_on_a_terminal() {
    let folder = Folder::new();
    let mut lines = String::new();
    for number in 0..100_000 {
        writeln!(lines, "{{\"path\":[\"G\",{number}],\"value\":{number}}}").unwrap();
    }
    assert_eq!(fed(&folder, &["import", "-"], &lines).code, 0);
    let screen = (0..TRIES).find_map(|_| {
        held(&folder, "verify", " entries, ", |command| {
            let mut readers = Process::children_of(command.pid).into_iter();
            readers.find(|reader| {
                let maps = fs::read_to_string(format!("/proc/{}/maps", reader.pid));
                maps.is_ok_and(|maps| maps.contains("store.mdbx"))
            })
        })
    });
    let screen = screen.unwrap_or_else(|| panic!("no picture in {TRIES} tries"));
    assert!(screen.contains("\r\x1b[Kverify ["), "{screen:?}");
    assert!(screen.ends_with(" MB\r\n"), "{screen:?}");
    assert!(
        screen.contains("sound: 100,000 entries in 1 global, "),
        "{screen:?}"
    );
}

#[test]
fn a_log_that_was_copied_away_brings_a_backup_up_to_date() {
    let folder = Folder::new();
    done(&folder, &["set", "G/count", "1"]);
    done(&folder, &["backup", "copy"]);
    done(&folder, &["set", "G/count", "2"]);
    done(&folder, &["set", "G/count", "3"]);
    // The only remains of the store are a copy of its log, cut in the middle of its last change.
    fs::create_dir_all(folder.path().join("away/changes")).unwrap();
    for entry in fs::read_dir(folder.path().join("data/changes")).unwrap() {
        let entry = entry.unwrap();
        let bytes = fs::read(entry.path()).unwrap();
        let copy = folder.path().join("away/changes").join(entry.file_name());
        // A segment has free space after its last change.
        let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        fs::write(copy, &bytes[..end - 3]).unwrap();
    }
    fs::remove_dir_all(folder.path().join("data")).unwrap();
    let told = store(
        &folder,
        &["restore", "copy", "--changes", "away", "--data", "new"],
    );
    assert_eq!(
        (told.code, told.err.as_str()),
        (0, "new: 1 changes done again\nnew: as of change 2\n")
    );
    assert_eq!(done(&folder, &["get", "G/count", "--data", "new"]), "2\n");
}

#[test]
fn a_log_of_changes_alone_gives_the_store_again() {
    let folder = Folder::new();
    for count in 1..=3 {
        done(&folder, &["set", "G/count", &count.to_string()]);
    }
    for name in ["store.mdbx", "store.mdbx-lck"] {
        fs::remove_file(folder.path().join("data").join(name)).unwrap();
    }
    let refused = store(&folder, &["get", "G/count"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    let advice = "`forebay store restore --changes data --data NEW`";
    assert!(
        refused.err.contains("data/store.mdbx is missing") && refused.err.contains(advice),
        "{refused:?}"
    );
    for words in [
        &["set", "G", "1"][..],
        &["import", "-"],
        &["verify"],
        &["compact"],
        &["backup", "copy"],
    ] {
        assert_ne!(fed(&folder, words, "").code, 0, "{words:?}");
    }
    let told = store(&folder, &["restore", "--changes", "data", "--data", "new"]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.err
            .ends_with("new: 3 changes done again\nnew: as of change 3\n"),
        "{told:?}"
    );
    assert_eq!(done(&folder, &["get", "G/count", "--data", "new"]), "3\n");
    assert_eq!(store(&folder, &["restore", "--data", "none"]).code, 2);
}
