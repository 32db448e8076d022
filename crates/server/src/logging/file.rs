//! The log file: append-only, and rotated before it would exceed its size. `forebay.log` becomes `forebay.log.1`, which becomes
//! `forebay.log.2`, and so on; the oldest is removed.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::config::LogRotation;

#[derive(Debug)]
pub(super) struct RotatingFile {
    path: PathBuf,
    rotate: LogRotation,
    file: File,
    bytes: u64,
}

impl RotatingFile {
    /// Opens the file for appending; creates it if there is none.
    pub(super) fn open(path: &Path, rotate: LogRotation) -> io::Result<Self> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Self {
            path: path.to_owned(),
            rotate,
            file,
            bytes,
        })
    }

    /// Writes whole lines; no line is split across files.
    pub(super) fn write(&mut self, mut lines: &[u8]) -> io::Result<()> {
        while !lines.is_empty() {
            let now = self.fitting(lines);
            if now == 0 {
                self.turn_over()?;
                continue;
            }
            self.file.write_all(&lines[..now])?;
            self.bytes += now as u64;
            lines = &lines[now..];
        }
        Ok(())
    }

    /// Bytes of whole lines that fit into the current file. A line longer than a file gets a file of its own.
    fn fitting(&self, lines: &[u8]) -> usize {
        let room = usize::try_from(self.rotate.size.saturating_sub(self.bytes)).unwrap_or(usize::MAX);
        if lines.len() <= room {
            return lines.len();
        }
        match memchr::memrchr(b'\n', &lines[..room]) {
            Some(at) => at + 1,
            None if self.bytes == 0 => memchr::memchr(b'\n', lines).map_or(lines.len(), |at| at + 1),
            None => 0,
        }
    }

    /// Reopens the path, whose file may have been renamed or removed. On an error the open file stays in use.
    pub(super) fn reopen(&mut self) -> io::Result<()> {
        *self = Self::open(&self.path, self.rotate)?;
        Ok(())
    }

    fn turn_over(&mut self) -> io::Result<()> {
        // Another program, or the other process of an upgrade, may have rotated the file already.
        if !self.is_at_its_path() {
            return self.reopen();
        }
        for number in (1..self.rotate.keep).rev() {
            rename_if_there(&self.numbered(number), &self.numbered(number + 1))?;
        }
        rename_if_there(&self.path, &self.numbered(1))?;
        self.file = append_to(&self.path)?;
        self.bytes = 0;
        Ok(())
    }

    fn is_at_its_path(&self) -> bool {
        let same =
            |open: fs::Metadata, named: fs::Metadata| (open.dev(), open.ino()) == (named.dev(), named.ino());
        let named = fs::metadata(&self.path);
        self.file
            .metadata()
            .is_ok_and(|open| named.is_ok_and(|named| same(open, named)))
    }

    fn numbered(&self, number: usize) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

fn rename_if_there(from: &Path, to: &Path) -> io::Result<()> {
    match fs::rename(from, to) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("fb-log-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn contents(folder: &Path) -> Vec<(String, String)> {
        let mut files: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                (
                    path.file_name().unwrap().to_string_lossy().into_owned(),
                    fs::read_to_string(path).unwrap(),
                )
            })
            .collect();
        files.sort();
        files
    }

    #[test]
    fn the_file_is_turned_over_at_its_size_and_so_many_are_kept() {
        let folder = folder("turn");
        let mut file = RotatingFile::open(&folder.join("log"), LogRotation { size: 6, keep: 2 }).unwrap();
        file.write(b"aa\nbb\ncc\n").unwrap();
        file.write(b"dd\nee\n").unwrap();
        file.write(b"longer than a file\nff\n").unwrap();
        let expected = [
            ("log", "ff\n"),
            ("log.1", "longer than a file\n"),
            ("log.2", "ee\n"),
        ];
        assert_eq!(
            contents(&folder),
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn an_existing_file_is_continued() {
        let folder = folder("continue");
        let rotate = LogRotation { size: 6, keep: 1 };
        RotatingFile::open(&folder.join("log"), rotate)
            .unwrap()
            .write(b"aa\n")
            .unwrap();
        RotatingFile::open(&folder.join("log"), rotate)
            .unwrap()
            .write(b"bb\ncc\n")
            .unwrap();
        let expected = [("log", "cc\n"), ("log.1", "aa\nbb\n")];
        assert_eq!(
            contents(&folder),
            expected.map(|(name, text)| (name.to_owned(), text.to_owned()))
        );
        fs::remove_dir_all(&folder).unwrap();
    }
}
