//! The initial data of every server. It is made once, by a server of its own, and kept in `target/`: a copy takes a fraction of the seconds
//! that `initdb` does.

use std::{
    collections::hash_map::DefaultHasher,
    fs::{self, File},
    hash::{Hash, Hasher},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{
    Error,
    cluster::{Cluster, last_lines},
    folders::copy,
    guard::Guard,
    programs::Programs,
};
use crate::binary;

const SETTINGS: &str = include_str!("postgresql.conf");
const ACCESS: &str = include_str!("pg_hba.conf");
const TABLES: &str = include_str!("create.sql");
const ROLE: &str = "create role benchmarkdbuser login password 'benchmarkdbpass'";
const DATABASE: &str = "create database hello_world owner benchmarkdbuser";

/// Folder of the templates.
fn folder() -> Result<PathBuf, Error> {
    let folder = binary::target_folder().join("postgres");
    fs::create_dir_all(&folder).map_err(Error::file("make the folder", &folder))?;
    Ok(folder)
}

/// A lock between processes, held until dropped.
pub(super) fn lock(path: &Path) -> Result<File, Error> {
    let file = File::create(path).map_err(Error::file("write", path))?;
    file.lock().map_err(Error::file("lock", path))?;
    Ok(file)
}

/// A cluster with the benchmarks' data, not started.
pub(super) fn instance(programs: &Programs) -> Result<Cluster, Error> {
    let template = template(programs)?;
    let cluster = Cluster::empty(programs.clone())?;
    match copy(&template, &cluster.data(), &|path| programs.give(path)) {
        Ok(()) => Ok(cluster),
        Err(error) => {
            let _ = fs::remove_dir_all(cluster.folder());
            Err(error)
        }
    }
}

/// The template for this version and these settings; it is made if it does not exist.
fn template(programs: &Programs) -> Result<PathBuf, Error> {
    let mut hasher = DefaultHasher::new();
    (programs.folder(), version(programs)?).hash(&mut hasher);
    (SETTINGS, ACCESS, TABLES, ROLE, DATABASE).hash(&mut hasher);
    let folder = folder()?;
    let template = folder.join(format!("template-{:016x}", hasher.finish()));
    let _lock = lock(&folder.join("lock"))?;
    if !template.exists() {
        let unfinished = template.with_extension("unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(Error::file("remove", &unfinished))?;
        }
        make(programs, &unfinished)?;
        fs::rename(&unfinished, &template).map_err(Error::file("make", &template))?;
    }
    Ok(template)
}

fn make(programs: &Programs, into: &Path) -> Result<(), Error> {
    let mut cluster = Cluster::empty(programs.clone())?;
    // From here on the folder is removed in any case.
    let mut guard = Guard::over(&cluster)?;
    initialise(&cluster)?;
    cluster.start(|cluster| guard.start(cluster.port()))?;
    let mut admin = cluster.admin("postgres")?;
    admin.batch_execute(ROLE)?;
    admin.batch_execute(DATABASE)?;
    drop(admin);
    let mut admin = cluster.admin("hello_world")?;
    if cluster.programs().can_count_statements() {
        admin.batch_execute("create extension if not exists pg_stat_statements")?;
    }
    admin.batch_execute(TABLES)?;
    // On its own: it cannot be part of a transaction, which several statements in one call are.
    admin.batch_execute("vacuum analyze")?;
    drop(admin);
    guard.stop()?;
    copy(&cluster.data(), into, &|_| Ok(()))
}

fn initialise(cluster: &Cluster) -> Result<(), Error> {
    let initdb = cluster.programs().path("initdb");
    let mut command = cluster.programs().command(&initdb, cluster.folder());
    let output = command
        .arg("-D")
        .arg(cluster.data())
        .args([
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--auth=reject",
            "--no-sync",
        ])
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Run { path: initdb, source })?;
    if !output.status.success() {
        return Err(Error::Initdb {
            status: output.status,
            said: last_lines(&String::from_utf8_lossy(&output.stderr)),
        });
    }
    for (name, content) in [("postgresql.conf", SETTINGS), ("pg_hba.conf", ACCESS)] {
        let path = cluster.data().join(name);
        fs::write(&path, content).map_err(Error::file("write", path))?;
    }
    Ok(())
}

fn version(programs: &Programs) -> Result<String, Error> {
    let postgres = programs.path("postgres");
    // Runs as the current user, who can reach the program wherever it is.
    let output = Command::new(&postgres)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::Run {
            path: postgres,
            source,
        })?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
