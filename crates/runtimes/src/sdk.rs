//! The SDKs embedded in the binary: unpacks them into a folder and builds the command lines of workers that use them.

use std::{
    ffi::OsString,
    fs,
    hash::{BuildHasher, RandomState},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

use forebay_pool::Protocol;

use crate::Runtime;

/// The SDK's files at build time.
struct Embedded {
    hash: &'static str,
    files: &'static [(&'static str, &'static [u8])],
}

const EMBEDDED: Embedded = include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// The mode bit that allows every user to write (stat(2)).
const WRITABLE_BY_ALL: u32 = 0o002;

/// The SDK could not be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum SdkError {
    /// The folder or a file in it cannot be written.
    #[error("cannot write the SDK for workers to {folder} (FOREBAY_CACHE_DIR names another folder)", folder = folder.display())]
    Write {
        /// The cache folder.
        folder: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Other users could change the code that our workers run.
    #[error(
        "{folder} belongs to another user or may be written by everybody (FOREBAY_CACHE_DIR names another folder)",
        folder = folder.display()
    )]
    ForeignFolder {
        /// The folder that is not safe to use.
        folder: PathBuf,
    },
}

/// The SDK unpacked into a folder.
#[derive(Clone, Debug)]
pub struct Sdk {
    package: PathBuf,
    cache: PathBuf,
}

/// A command line with the environment variables it needs.
#[derive(Debug)]
pub struct Launch {
    /// The command line, program first.
    pub argv: Vec<OsString>,
    /// Variables to set in addition to those the caller passes on.
    pub env: Vec<(OsString, OsString)>,
}

impl Sdk {
    /// Writes the SDK into the cache folder unless it is already there.
    pub fn unpack() -> Result<Self, SdkError> {
        Self::unpack_to(cache_folder())
    }

    fn unpack_to(cache: PathBuf) -> Result<Self, SdkError> {
        let error = |source| SdkError::Write {
            folder: cache.clone(),
            source,
        };
        fs::DirBuilder::new()
            .recursive(true)
            // Workers of other users read the SDK by its name; nobody else can list what is there.
            .mode(0o711)
            .create(&cache)
            .map_err(error)?;
        let found = fs::metadata(&cache).map_err(error)?;
        if found.uid() != rustix::process::geteuid().as_raw() || found.mode() & WRITABLE_BY_ALL != 0 {
            return Err(SdkError::ForeignFolder { folder: cache });
        }
        let package = cache.join(format!("sdk-{}", EMBEDDED.hash));
        if !is_complete(&package) {
            write_package(&cache, &package).map_err(error)?;
        }
        Ok(Self { package, cache })
    }

    /// The command line of a worker; `flags` are options of the runtime itself.
    pub fn launch(&self, runtime: Runtime, program: &Path, flags: &[String], protocol: Protocol) -> Launch {
        let mut argv = vec![program.into()];
        argv.extend(flags.iter().map(OsString::from));
        if runtime == Runtime::Bun {
            // Otherwise Bun would ask a registry for packages it does not find.
            argv.push("--no-install".into());
            // Otherwise Bun would read `.env` in its folder; a worker gets only the variables the pool passes on.
            argv.push("--no-env-file".into());
        }
        let script = match protocol {
            Protocol::Framed => "dist/worker.js",
            Protocol::FramedStdio | Protocol::Jsonl | Protocol::Wabur { .. } => "dist/stdio/worker.js",
        };
        argv.push(self.package.join(script).into());
        let mut env = vec![("FOREBAY_CACHE_DIR".into(), self.cache.clone().into())];
        if let Ok(binary) = std::env::current_exe() {
            env.push(("FOREBAY_BIN".into(), binary.into()));
        }
        Launch { argv, env }
    }

    /// The command line of a Python worker; `options` go to the worker program.
    pub fn launch_python(
        &self,
        program: &Path,
        options: impl IntoIterator<Item = OsString>,
    ) -> Vec<OsString> {
        let mut argv = vec![program.into(), self.package.join("python").into()];
        argv.extend(options);
        argv
    }

    /// The unpacked location of an SDK file, given its path in the package.
    pub fn file(&self, path: &str) -> PathBuf {
        self.package.join(path)
    }
}

/// The contents of an SDK file, given its path in the package; used by scripts.
pub fn sdk_file(path: &str) -> Option<&'static [u8]> {
    let found = EMBEDDED.files.iter().find(|(name, _)| *name == path);
    found.map(|(_, bytes)| *bytes)
}

/// `FOREBAY_CACHE_DIR`, else a folder in the user's cache if the home is this user's, else a folder of the user's own in the temporary directory.
pub fn cache_folder() -> PathBuf {
    let named = |name| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if let Some(folder) = named("FOREBAY_CACHE_DIR") {
        return folder;
    }
    if let Some(folder) = named("XDG_CACHE_HOME") {
        return folder.join("forebay");
    }
    match named("HOME").filter(|home| is_own(home)) {
        Some(home) => home.join(".cache/forebay"),
        None => std::env::temp_dir().join(format!("forebay-{}", rustix::process::geteuid().as_raw())),
    }
}

/// After a switch to another user `HOME` is still that of root.
fn is_own(home: &Path) -> bool {
    fs::metadata(home).is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
}

fn is_complete(package: &Path) -> bool {
    EMBEDDED
        .files
        .iter()
        .all(|(name, bytes)| fs::read(package.join(name)).is_ok_and(|found| found == *bytes))
}

/// Writes to a temporary folder and renames it, so that a partial package is never visible.
fn write_package(cache: &Path, package: &Path) -> io::Result<()> {
    // Servers in several containers may share the cache folder and have the same process id.
    let unique = RandomState::new().hash_one(std::process::id());
    let fresh = cache.join(format!("sdk-{}.{unique:016x}", EMBEDDED.hash));
    fs::create_dir(&fresh)?;
    let placed = fill_and_place(&fresh, package);
    if !matches!(placed, Ok(true)) {
        // The temporary name is unique, so no later run would remove it.
        fs::remove_dir_all(&fresh)?;
    }
    placed.map(drop)
}

/// Fills the temporary folder and renames it into place. Returns false if a complete package is there already.
fn fill_and_place(fresh: &Path, package: &Path) -> io::Result<bool> {
    for (name, bytes) in EMBEDDED.files {
        let file = fresh.join(name);
        fs::create_dir_all(file.parent().expect("files lie in the package"))?;
        fs::write(file, bytes)?;
    }
    if fs::rename(fresh, package).is_ok() {
        return Ok(true);
    }
    // Another server was faster, or the existing package is damaged.
    if is_complete(package) {
        return Ok(false);
    }
    fs::remove_dir_all(package)?;
    fs::rename(fresh, package).map(|()| true)
}
