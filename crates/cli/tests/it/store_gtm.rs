//! ZWR against the original: GT.M loads what `forebay store export` writes, and the other way round. Without GT.M (Debian package
//! `fis-gtm`) these tests say so on standard error and check nothing.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use forebay_testkit::Folder;

use crate::store_nodes::{done, store};

const SEED: u64 = 20_261_122;

/// A GT.M with an empty database in a folder.
struct Gtm {
    programs: PathBuf,
    icu: String,
    folder: Folder,
}

impl Gtm {
    /// `None`, with a message, if GT.M is not installed.
    fn find() -> Option<Self> {
        let Some((programs, icu)) = installed() else {
            // Written past the harness, which captures the output of tests.
            let _ = std::io::stderr().write_all(
                b"\nskipped: no GT.M in /usr/lib/*/fis-gtm (apt-get install fis-gtm), so ZWR was not tried with it\n",
            );
            return None;
        };
        let gtm = Self {
            programs,
            icu,
            folder: Folder::new(),
        };
        let data = gtm.folder.path().join("gtm.dat");
        gtm.folder.write(
            "gde.in",
            format!(
                "change -segment DEFAULT -file={}\nchange -region DEFAULT -null_subscripts=always\n\
                 change -region DEFAULT -nostdnullcoll\nchange -region DEFAULT -key_size=1019 -record_size=1048576\nexit\n",
                data.display()
            ),
        );
        let input = fs::File::open(gtm.folder.path().join("gde.in")).unwrap();
        Self::went_well(gtm.command("mumps").args(["-run", "GDE"]).stdin(input));
        Self::went_well(gtm.command("mupip").arg("create"));
        Some(gtm)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command
            .current_dir(self.folder.path())
            .env("gtm_dist", &self.programs)
            .env("gtmgbldir", self.folder.path().join("gtm.gld"))
            .env(
                "gtmroutines",
                format!(
                    "{} {}/utf8/libgtmutil.so",
                    self.folder.path().display(),
                    self.programs.display()
                ),
            )
            .env("gtm_chset", "UTF-8")
            .env("gtm_icu_version", &self.icu)
            .env("gtm_tmp", self.folder.path())
            .env("gtm_log", self.folder.path())
            .env("LC_ALL", "C.UTF-8");
        command
    }

    fn went_well(command: &mut Command) -> Output {
        let output = command.output().unwrap();
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(
            output.status.success() && !said.contains("-E-"),
            "{command:?}: {said}"
        );
        output
    }

    /// Runs statements of M, one per line.
    fn does(&self, lines: &str) {
        let indented = lines.replace('\n', "\n ");
        self.folder.write("does.m", format!("does\n {indented}\n quit\n"));
        Self::went_well(self.command("mumps").args(["-run", "does"]));
    }

    fn loads(&self, file: &Path) {
        Self::went_well(self.command("mupip").args(["load", "-format=zwr"]).arg(file));
    }

    fn extracts(&self) -> String {
        let file = self.folder.path().join("out.zwr");
        let _ = fs::remove_file(&file);
        Self::went_well(self.command("mupip").args(["extract", "-format=zwr"]).arg(&file));
        fs::read_to_string(file).unwrap()
    }
}

/// The newest installed one, and the version of the library for Unicode as GT.M wants it: 7.2 for `libicuio.so.72`.
fn installed() -> Option<(PathBuf, String)> {
    let below = |folder: &Path| -> Vec<PathBuf> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let libraries = below(Path::new("/usr/lib"));
    let mut versions: Vec<PathBuf> = libraries
        .iter()
        .flat_map(|library| below(&library.join("fis-gtm")))
        .filter(|version| version.join("mumps").exists() && version.join("utf8").exists())
        .collect();
    versions.sort();
    let programs = versions.pop()?;
    let icu = below(programs.parent()?.parent()?).iter().find_map(|file| {
        let number = file.file_name()?.to_str()?.strip_prefix("libicuio.so.")?;
        let (major, minor) = number.split_at_checked(1)?;
        (number.len() == 2).then(|| format!("{major}.{minor}"))
    })?;
    Some((programs, icu))
}

/// The lines after the two heading lines.
fn body(zwr: &str) -> Vec<&str> {
    zwr.lines().skip(2).collect()
}

/// Knuth's generator; its upper bits are the good ones.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    fn digits(&mut self, count: u64) -> String {
        (0..count).map(|_| self.below(10).to_string()).collect()
    }

    /// A canonical number, almost one, or no number at all.
    fn subscript(&mut self) -> String {
        let sign = if self.below(3) == 0 { "-" } else { "" };
        match self.below(8) {
            0 => format!("{sign}{}", self.below(1000)),
            1 => {
                let count = 1 + self.below(20);
                format!("{sign}{}", self.digits(count))
            }
            2 => {
                let count = 1 + self.below(19);
                format!("{sign}.{}", self.digits(count))
            }
            3 => {
                let (whole, fraction) = (self.below(10), 1 + self.below(9));
                format!("{sign}{}.{}", self.digits(whole), self.digits(fraction))
            }
            4 => {
                let (first, zeros) = (1 + self.below(9), self.below(48) as usize);
                format!("{sign}{first}{}", "0".repeat(zeros))
            }
            5 => {
                let (zeros, last) = (self.below(44) as usize, 1 + self.below(9));
                format!("{sign}.{}{last}", "0".repeat(zeros))
            }
            6 => [
                "", "-", ".", "-0", "00", "1E5", "+1", " 1", "1 ", "Z", "a", "aa", "é", "ö",
            ][self.below(14) as usize]
                .to_owned(),
            _ => self.text(),
        }
    }

    fn text(&mut self) -> String {
        const CHARACTERS: [char; 16] = [
            'a', 'Z', '7', '"', '\\', ' ', '\0', '\u{1}', '\n', '\u{7f}', '\u{85}', 'é', '漢', '😀', '_', '$',
        ];
        let count = self.below(9);
        (0..count).map(|_| CHARACTERS[self.below(16) as usize]).collect()
    }

    fn value(&mut self, depth: u64) -> serde_json::Value {
        use serde_json::{Value, json};
        match self.below(if depth == 0 { 7 } else { 9 }) {
            0 => Value::from(self.below(100_000)),
            1 => json!(-0.25),
            2 => [
                json!(null),
                json!(true),
                json!(false),
                json!({}),
                json!([]),
                json!(1.0),
                json!("5"),
            ][self.below(7) as usize]
                .clone(),
            3 => Value::from(self.subscript()),
            4 => json!("\0true"),
            5 | 6 => Value::from(self.text()),
            7 => {
                let count = self.below(4);
                (0..count).map(|_| self.value(depth - 1)).collect()
            }
            _ => {
                let count = self.below(4);
                let member = |_| (self.subscript(), self.value(depth - 1));
                Value::Object((0..count).map(member).collect())
            }
        }
    }
}

/// A string as an expression of M.
fn m_string(text: &str) -> String {
    let parts: Vec<String> = text
        .chars()
        .map(|character| format!("$C({})", u32::from(character)))
        .collect();
    if parts.is_empty() {
        "\"\"".into()
    } else {
        parts.join("_")
    }
}

#[test]
fn what_gtm_loads_and_extracts_again_is_what_was_exported() {
    let Some(gtm) = Gtm::find() else { return };
    let folder = Folder::new();
    let mut random = Random(SEED);
    let mut lines = String::new();
    for _ in 0..200 {
        let path = serde_json::json!(["Doc", random.subscript(), random.text()]);
        let document = random.value(3);
        writeln!(lines, "{{\"path\":{path},\"document\":{document}}}").unwrap();
    }
    folder.write("in.ndjson", lines);
    done(&folder, &["import", "in.ndjson"]);
    done(&folder, &["set", "%25Z9", "[1,\"5\",[],{\"a\":null}]"]);
    done(&folder, &["set", "%25Z9/2", "\"own\""]);
    done(&folder, &["set", "%25Z9", "\"and its root\""]);
    done(&folder, &["export", "--to", "out.zwr"]);

    gtm.loads(&folder.path().join("out.zwr"));
    let extract = gtm.extracts();
    let exported = folder.read("out.zwr").unwrap();
    assert_eq!(body(&extract), body(&exported), "seed {SEED}");

    folder.write("back.zwr", &extract);
    done(&folder, &["import", "back.zwr", "--data", "back"]);
    assert_eq!(
        done(&folder, &["export", "--data", "back"]),
        done(&folder, &["export"]),
        "seed {SEED}"
    );
}

#[test]
fn what_m_programs_have_written_comes_and_goes_unchanged() {
    let Some(gtm) = Gtm::find() else { return };
    let folder = Folder::new();
    let mut random = Random(SEED + 1);
    let mut statements = String::from(
        "set ^A=1,^A(1)=5,^A(1.5)=\"1.0\",^A(-.5)=\"\",^A(1E20)=1E20,^A(\"1E20\")=\".50\"\n\
         set ^A(\"c\",$C(1,0,127,159,173,8232,65279))=$C(0)_\"a\"_$C(10,13)_\"b\"_$C(0),^%B(\"\")=12345678901234567\n",
    );
    for _ in 0..200 {
        let (first, second) = (random.subscript(), random.subscript());
        let value = random.subscript();
        writeln!(
            statements,
            "set ^R({},{})={}",
            m_string(&first),
            m_string(&second),
            m_string(&value)
        )
        .unwrap();
    }
    gtm.does(&statements);
    let extract = gtm.extracts();
    folder.write("m.zwr", &extract);
    done(&folder, &["import", "m.zwr"]);
    done(&folder, &["export", "--to", "out.zwr"]);
    assert_eq!(
        body(&folder.read("out.zwr").unwrap()),
        body(&extract),
        "seed {}",
        SEED + 1
    );
    assert_eq!(done(&folder, &["get", "A/1"]), "5\n");
    assert_eq!(done(&folder, &["get", "A/1.5"]), "\"1.0\"\n");
}

#[test]
fn subscripts_sort_as_in_m() {
    let Some(gtm) = Gtm::find() else { return };
    let folder = Folder::new();
    let mut random = Random(SEED + 2);
    let mut statements = String::new();
    let mut lines = String::new();
    for _ in 0..600 {
        let subscript = random.subscript();
        writeln!(statements, "set ^S({})=1", m_string(&subscript)).unwrap();
        let path = serde_json::json!(["S", subscript]);
        writeln!(lines, "{{\"path\":{path},\"value\":1}}").unwrap();
    }
    // Neither side has seen the other's order.
    gtm.does(&statements);
    folder.write("in.ndjson", &lines);
    done(&folder, &["import", "in.ndjson"]);
    let ours = done(&folder, &["export", "--format", "zwr"]);
    assert_eq!(body(&gtm.extracts()), body(&ours), "seed {}", SEED + 2);
}

#[test]
fn a_lossy_export_is_what_m_programs_expect() {
    let Some(gtm) = Gtm::find() else { return };
    let folder = Folder::new();
    done(
        &folder,
        &[
            "set",
            "P/1",
            r#"{"ok":true,"no":false,"none":null,"n":1.50,"big":1e3,"s":"5","list":["a",{}]}"#,
        ],
    );
    let ended = store(
        &folder,
        &["export", "--format", "zwr", "--lossy", "--to", "m.zwr"],
    );
    assert_eq!(ended.code, 0, "{ended:?}");
    gtm.loads(&folder.path().join("m.zwr"));
    assert_eq!(
        body(&gtm.extracts()),
        [
            "^P(1,\"big\")=\"1000\"",
            "^P(1,\"list\",0)=\"a\"",
            "^P(1,\"list\",1)=\"\"",
            "^P(1,\"n\")=\"1.5\"",
            "^P(1,\"no\")=\"0\"",
            "^P(1,\"none\")=\"\"",
            "^P(1,\"ok\")=\"1\"",
            "^P(1,\"s\")=\"5\"",
        ]
    );
}
