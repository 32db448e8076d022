//! Resolves and loads modules of scripts: files of the script's folder, read once, and the SDK. SDK modules are named `sdk:` plus their
//! path in the package.
//!
//! The folder is that of the handler, or a configured parent of it. Files outside it cannot be imported through any path or link, and only
//! regular files of at most [`MODULE_BYTES_MAX`] bytes can be. Rules have no folder here and import nothing: their modules are `require`d,
//! and belong to their workflow.

use std::{
    collections::HashMap,
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use cap_std::{
    ambient_authority,
    fs::{Dir, OpenOptions, OpenOptionsExt as _},
};
use parking_lot::Mutex;
use rquickjs::{
    Ctx, Error, Module, Result,
    loader::{ImportAttributes, Loader, Resolver},
    module::Declared,
};

use crate::{
    Fault,
    options::{Program, ScriptEnvironment},
    sys::Compiled,
};

/// Prefix of the names of SDK modules.
const SDK: &str = "sdk:";
/// The main module of handlers, which this program calls.
pub(crate) const MAIN: &str = "sdk:dist/script/main.js";
/// The main module of rules.
pub(crate) const RULES_MAIN: &str = "sdk:dist/rules/main.js";
/// The folder of stand-ins for modules that are loaded lazily; their names are relative to the package.
pub(crate) const LAZY: &str = "sdk:lazy";
/// SDK modules that depend on their runtime, and their replacements here.
const REPLACED: &[(&str, &str)] = &[
    ("dist/html-text.js", "dist/script/html-text.js"),
    ("dist/source.js", "dist/script/source.js"),
    ("dist/store/addon.js", "dist/script/addon.js"),
    ("dist/store/open-stores.js", "dist/script/open-stores.js"),
    ("dist/sleep.js", "dist/script/sleep.js"),
    ("dist/web.js", "dist/script/web-request.js"),
    ("dist/sql/session.js", "dist/script/sql.js"),
    ("dist/sql/statements.js", "dist/script/statements.js"),
    ("node:buffer", "dist/script/buffer.js"),
];
/// Maximum size of a module in bytes.
const MODULE_BYTES_MAX: u64 = 16 << 20;

/// The modules of one script, shared by all its engines.
#[derive(Debug)]
pub(crate) struct Modules {
    environment: ScriptEnvironment,
    program: Program,
    /// Compiled modules by name. All engines run the same code, and only the first one compiles it.
    compiled: Mutex<HashMap<String, Arc<Compiled>>>,
    /// The import in progress, and the last one that failed.
    trail: Mutex<Trail>,
    /// The shortest CPU time in which an executor has loaded the script, in microseconds.
    load_us: AtomicU64,
    /// Whether I/O threads no longer load the script.
    executors_only: AtomicBool,
}

/// The path to a module that is being imported.
#[derive(Debug, Default)]
struct Trail {
    /// The importing module and the imported name. Modules are loaded as soon as they are resolved.
    asked: (String, String),
    failed: Option<Fault>,
}

/// If loading takes an executor longer than this, it is not tried on I/O threads: an uninterruptible part of it may take as long there.
const IO_KNOWN_LOAD_MAX: Duration = Duration::from_millis(50);

impl Modules {
    pub(crate) fn new(environment: ScriptEnvironment, program: Program) -> Self {
        Self {
            environment,
            program,
            compiled: Mutex::default(),
            trail: Mutex::default(),
            load_us: AtomicU64::new(u64::MAX),
            executors_only: AtomicBool::new(false),
        }
    }

    /// Records the CPU time in which an executor has loaded the script.
    pub(crate) fn note_load(&self, took: Duration) {
        self.load_us.fetch_min(took.as_micros() as u64, Ordering::AcqRel);
    }

    /// Checks whether the script may be loaded on an I/O thread. The error is the reason why not.
    pub(crate) fn check_io_load(&self) -> std::result::Result<(), String> {
        let took = Duration::from_micros(self.load_us.load(Ordering::Acquire));
        if took > IO_KNOWN_LOAD_MAX {
            return Err(format!(
                "to load it took {took:?}, which is too long for an I/O thread ({IO_KNOWN_LOAD_MAX:?})"
            ));
        }
        Ok(())
    }

    /// Stops loading the script on I/O threads. Returns whether it was allowed until now.
    pub(crate) fn leave_to_executors(&self) -> bool {
        !self.executors_only.swap(true, Ordering::AcqRel)
    }

    /// Whether I/O threads no longer load the script.
    pub(crate) fn is_left_to_executors(&self) -> bool {
        self.executors_only.load(Ordering::Acquire)
    }

    /// The files that were imported so far.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let compiled = self.compiled.lock();
        let files = compiled.keys().filter(|name| !name.starts_with(SDK));
        files.map(PathBuf::from).collect()
    }

    /// The last failed import, with its location.
    pub(crate) fn failed_import(&self) -> Option<Fault> {
        self.trail.lock().failed.clone()
    }

    /// Records that `base` cannot import `name`.
    fn note_failed(&self, base: &str, name: &str, what: String) {
        let quoted = [format!("'{name}'"), format!("\"{name}\"")];
        let source = self.read(Path::new(base)).unwrap_or_default();
        let line = source
            .lines()
            .position(|line| quoted.iter().any(|name| line.contains(name)));
        self.trail.lock().failed = Some(Fault {
            file: PathBuf::from(if base.is_empty() { name } else { base }),
            line: line.map(|before| before as u32 + 1),
            column: None,
            what,
        });
    }

    /// Records that the module that was just resolved cannot be loaded.
    fn note_unloadable(&self, module: &str, what: &str) {
        // An error from erasing types contains its location.
        let inside = what.strip_prefix(module).and_then(|rest| {
            let mut parts = rest.strip_prefix(':')?.splitn(3, ':');
            let (line, column) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
            Some((line, column, parts.next()?.trim_start().to_owned()))
        });
        if let Some((line, column, what)) = inside {
            self.trail.lock().failed = Some(Fault {
                file: module.into(),
                line: Some(line),
                column: Some(column),
                what,
            });
            return;
        }
        let (base, name) = self.trail.lock().asked.clone();
        self.note_failed(&base, &name, format!("cannot import `{name}`: {what}"));
    }

    /// Resolves `name` as imported by the module `base`, which is empty for imports by the server.
    pub(crate) fn resolve(&self, base: &str, name: &str) -> std::result::Result<String, String> {
        if let Some(base) = base.strip_prefix(SDK) {
            let base = if base.starts_with("lazy/") { "lazy" } else { base };
            let path = if name.starts_with('.') {
                join(Path::new(base), name).to_string_lossy().into_owned()
            } else {
                name.to_owned()
            };
            let replaced = REPLACED.iter().find(|(from, _)| *from == path);
            return Ok(format!("{SDK}{}", replaced.map_or(&*path, |(_, to)| to)));
        }
        let Program::Handler { file, modules } = &self.program else {
            if base.is_empty() && name == RULES_MAIN {
                return Ok(name.to_owned());
            }
            return Err(format!(
                "rules cannot import `{name}` while they run: `require` gives them the modules of their workflow"
            ));
        };
        if base.is_empty() && (name == MAIN || Path::new(name) == file) {
            return Ok(name.to_owned());
        }
        if name == "forebay" {
            return Ok(format!("{SDK}dist/index.js"));
        }
        if let Some(part) = name.strip_prefix("forebay/") {
            let path = format!("dist/{part}/index.js");
            if (self.environment.sdk)(&path).is_some() {
                return Ok(format!("{SDK}{path}"));
            }
            return Err(format!(
                "`{name}` is no part of the SDK that scripts have; a pool has all of it"
            ));
        }
        if !name.starts_with("./") && !name.starts_with("../") {
            return Err(format!(
                "`{name}` cannot be imported by a script: only `forebay` and files can, by a path such as `./other.js`; a pool has the \
                 modules of its runtime and of packages"
            ));
        }
        let path = join(Path::new(base), name);
        if path.starts_with(modules) {
            Ok(path.to_string_lossy().into_owned())
        } else {
            Err(outside(name, modules))
        }
    }

    fn load<'js>(&self, ctx: &Ctx<'js>, name: &str) -> Result<Module<'js, Declared>> {
        let known = self.compiled.lock().get(name).cloned();
        let module = match known {
            Some(compiled) => compiled.load(ctx)?,
            None => {
                let source = self.source(name).map_err(|what| {
                    self.note_unloadable(name, &what);
                    Error::new_loading_message(name, format!("{name}: {what}"))
                })?;
                let module = Module::declare(ctx.clone(), name, source)?;
                let compiled = Arc::new(Compiled::of(&module)?);
                self.compiled.lock().insert(name.to_owned(), compiled);
                module
            }
        };
        if !name.starts_with(SDK) {
            module.meta()?.set("url", format!("file://{name}"))?;
        }
        Ok(module)
    }

    fn source(&self, name: &str) -> std::result::Result<String, String> {
        if let Some(path) = name.strip_prefix(SDK) {
            let bytes = (self.environment.sdk)(path).ok_or_else(|| format!("the SDK has no file {path}"))?;
            return Ok(String::from_utf8_lossy(bytes).into_owned());
        }
        self.read(Path::new(name))
    }

    fn read(&self, path: &Path) -> std::result::Result<String, String> {
        let Program::Handler { modules, .. } = &self.program else {
            return Err("rules have no files of their own".into());
        };
        let below = path
            .strip_prefix(modules)
            .map_err(|_| outside(&path.to_string_lossy(), modules))?;
        let source = read_below(modules, below).map_err(|error| error.to_string())?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("ts" | "mts") => (self.environment.erase_types)(&source, path),
            // JSON is JavaScript.
            Some("json") => Ok(format!("export default {source};")),
            _ => Ok(source),
        }
    }
}

fn outside(name: &str, modules: &Path) -> String {
    format!(
        "`{name}` leads out of `{}`, the script's folder (`modules` names another)",
        modules.display()
    )
}

/// Reads a file that must be below a folder, whatever links lead to it.
fn read_below(folder: &Path, path: &Path) -> io::Result<String> {
    let folder = Dir::open_ambient_dir(folder, ambient_authority())?;
    // Opening a pipe or a device could otherwise block the thread.
    let options = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .clone();
    let file = folder.open_with(path, &options)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut source = String::new();
    let length = file.take(MODULE_BYTES_MAX + 1).read_to_string(&mut source)?;
    if length as u64 > MODULE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it is longer than a module may be ({MODULE_BYTES_MAX} bytes)"
        )));
    }
    Ok(source)
}

/// Resolves the path `name` relative to the file `base`.
fn join(base: &Path, name: &str) -> PathBuf {
    let mut path = base.to_path_buf();
    path.pop();
    for part in Path::new(name).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            part => path.push(part),
        }
    }
    path
}

/// Module loader of one engine.
pub(crate) struct ModuleLoader(pub(crate) Arc<Modules>);

impl Resolver for ModuleLoader {
    fn resolve<'js>(
        &mut self,
        _: &Ctx<'js>,
        base: &str,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<String> {
        let resolved = self.0.resolve(base, name).map_err(|message| {
            self.0.note_failed(base, name, message.clone());
            Error::new_resolving_message(base, name, message)
        })?;
        self.0.trail.lock().asked = (base.to_owned(), name.to_owned());
        Ok(resolved)
    }
}

impl Loader for ModuleLoader {
    fn load<'js>(
        &mut self,
        ctx: &Ctx<'js>,
        name: &str,
        _: Option<ImportAttributes<'js>>,
    ) -> Result<Module<'js, Declared>> {
        self.0.load(ctx, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules_of(program: Program) -> Modules {
        let environment = ScriptEnvironment {
            sdk: |path| (path == "dist/store/index.js").then_some(b"".as_slice()),
            erase_types: |source, _| Ok(source.to_owned()),
        };
        Modules::new(environment, program)
    }

    fn modules() -> Modules {
        modules_of(Program::Handler {
            file: "/app/api.js".into(),
            modules: "/app".into(),
        })
    }

    #[test]
    fn names_lead_to_files_and_to_the_sdk() {
        let modules = modules();
        for (base, name, found) in [
            ("/app/api.js", "./other.js", "/app/other.js"),
            ("/app/lib/a.js", "../other.js", "/app/other.js"),
            ("/app/api.js", "./lib/.././lib/a.js", "/app/lib/a.js"),
            ("/app/api.js", "forebay", "sdk:dist/index.js"),
            ("/app/api.js", "forebay/store", "sdk:dist/store/index.js"),
            (
                "sdk:dist/store/store.js",
                "./addon.js",
                "sdk:dist/script/addon.js",
            ),
            ("sdk:dist/store/store.js", "../reply.js", "sdk:dist/reply.js"),
            ("sdk:dist/form.js", "node:buffer", "sdk:dist/script/buffer.js"),
            ("", MAIN, MAIN),
            ("", "/app/api.js", "/app/api.js"),
        ] {
            assert_eq!(
                modules.resolve(base, name).as_deref(),
                Ok(found),
                "{name} in {base}"
            );
        }
    }

    #[test]
    fn nothing_else_can_be_imported() {
        let modules = modules();
        for name in [
            "node:fs",
            "fs",
            "left-pad",
            "forebay/testing",
            "sdk:dist/script/host.js",
            "https://example.org/a.js",
            "file:///app/other.js",
            "/app/other.js",
            "../application/other.js",
            "./lib/../../other.js",
            "",
        ] {
            for base in ["/app/api.js", "<input>", ""] {
                let refused = modules.resolve(base, name).unwrap_err();
                assert!(refused.contains(name), "{refused}");
            }
        }
    }

    #[test]
    fn rules_import_nothing() {
        let modules = modules_of(Program::Rules);
        assert_eq!(modules.resolve("", RULES_MAIN).as_deref(), Ok(RULES_MAIN));
        for name in [MAIN, "forebay", "./a.js", "/app/api.js", "sdk:dist/index.js"] {
            for base in ["rule.js", "<input>", ""] {
                assert!(modules.resolve(base, name).is_err(), "{name} in {base}");
            }
        }
        assert!(modules.resolve("rule.js", RULES_MAIN).is_err());
    }
}
