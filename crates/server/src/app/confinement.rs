//! The confinement of a pool's workers: what its configuration says, and what its workers need to start.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use forebay_pool::{Account, CgroupLimits, Confinement, ConfinementError, Files, Limit};
use forebay_runtimes::Sdk;

use crate::config::{self, Config, PythonModule, StoreMode, Worker};

/// Files of packages that Node and Bun read in each folder above a module.
const PACKAGE_FILES: [&str; 3] = ["package.json", "node_modules", "tsconfig.json"];

/// The workers of a pool cannot be confined.
#[derive(Debug, thiserror::Error)]
#[error("pool.{pool}.{error}")]
pub struct NotConfined {
    /// The pool's name.
    pub pool: String,
    /// The missing permission or feature, and the remedy.
    pub error: ConfinementError,
}

/// The confinement that `[pool.NAME.confine]` describes, if the pool has one. Without an SDK, its files are left out.
fn confinement(
    name: &str,
    pool: &config::Pool,
    config: &Config,
    sdk: Option<&Sdk>,
) -> Result<Option<Confinement>, NotConfined> {
    let Some(confine) = &pool.confine else {
        return Ok(None);
    };
    let (user, group) = (confine.user.as_deref(), confine.group.as_deref());
    let account = (user.is_some() || group.is_some()).then(|| Account::find(user, group));
    let account = account.transpose().map_err(|error| NotConfined {
        pool: name.to_owned(),
        error,
    })?;
    let required = required(pool, sdk);
    let files = confine.confines_files().then(|| {
        let mut files = files(pool, config);
        files.read.extend(required.iter().cloned());
        files.read.extend(confine.read.iter().flatten().cloned());
        files.write.extend(confine.write.iter().flatten().cloned());
        files
    });
    let limits = [
        (Limit::AddressSpace, confine.address_space_max),
        (Limit::OpenFiles, confine.open_files_max),
        (Limit::Processes, confine.processes_max),
        (Limit::Core, confine.core_max),
        (Limit::CpuTime, confine.cpu_time_max.map(|time| time.as_secs())),
        (Limit::FileSize, confine.file_size_max),
    ];
    Ok(Some(Confinement {
        account,
        files,
        network: confine.network,
        no_new_privs: confine.no_new_privs,
        private_tmp: confine.private_tmp,
        limits: limits
            .into_iter()
            .filter_map(|(limit, value)| Some((limit, value?)))
            .collect(),
        cgroup: CgroupLimits {
            memory_bytes: confine.cgroup_memory_max,
            cpu_percent: confine.cgroup_cpu_percent_max,
            processes: confine.cgroup_processes_max,
        },
        required,
    }))
}

/// The confinements of those pools that `is_started` and have one, each tried out on a process.
pub(super) fn confinements(
    config: &Config,
    sdk: Option<&Sdk>,
    is_started: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Confinement>, NotConfined> {
    let mut confinements = BTreeMap::new();
    for (name, pool) in config.pools.iter().filter(|(name, _)| is_started(name)) {
        let Some(confinement) = confinement(name, pool, config, sdk)? else {
            continue;
        };
        confinement.try_out().map_err(|error| NotConfined {
            pool: name.clone(),
            error,
        })?;
        confinements.insert(name.clone(), confinement);
    }
    Ok(confinements)
}

/// The program of a worker, the modules that it begins with, and the SDK.
fn required(pool: &config::Pool, sdk: Option<&Sdk>) -> Vec<PathBuf> {
    let package = || sdk.map(|sdk| sdk.file(""));
    match &pool.worker {
        Worker::Script {
            program,
            handler,
            start,
            ..
        } => {
            let mut files = vec![program.clone(), handler.clone()];
            files.extend(start.clone().into_iter().chain(package()));
            files
        }
        Worker::Python {
            program,
            application,
            start,
        } => {
            let mut files = vec![program.clone()];
            if let PythonModule::File(file) = &application.module {
                files.push(file.clone());
            }
            files.extend(start.clone().into_iter().chain(package()));
            files
        }
        Worker::Command { program, .. } => vec![program.clone()],
    }
}

/// The folders that a worker needs to start, besides its [required] files.
fn files(pool: &config::Pool, config: &Config) -> Files {
    let mut files = Files::default();
    match &pool.worker {
        Worker::Script { handler, start, .. } => {
            // Node has it strip types.
            files.read.extend(std::env::current_exe());
            for module in [Some(handler), start.as_ref()].into_iter().flatten() {
                files.read.extend(module.parent().map(Path::to_owned));
                let above = module.ancestors().skip(1);
                let packages = above.flat_map(|folder| PACKAGE_FILES.map(|name| folder.join(name)));
                files.read.extend(packages.filter(|path| path.exists()));
            }
        }
        Worker::Python {
            program,
            application,
            start,
        } => {
            files.read.push(match &application.module {
                PythonModule::File(file) => file.parent().unwrap_or(file).to_owned(),
                PythonModule::Named(_) => pool.cwd.clone(),
            });
            files
                .read
                .extend(start.as_deref().and_then(Path::parent).map(Path::to_owned));
            files.read.extend(python_folders(program));
        }
        Worker::Command { .. } => files.read.push(pool.cwd.clone()),
    }
    let store = config
        .store
        .as_ref()
        .filter(|store| pool.store_mode() != StoreMode::None && store.url.is_none());
    // Readers, too, write: their marks. `forebay check` may come before the first start, which makes the folder.
    let folder = store
        .map(|store| store.path.clone())
        .filter(|folder| folder.exists());
    files.write.extend(folder);
    files
}

/// The virtual environment that an interpreter belongs to, and the libraries of the installation behind it.
fn python_folders(program: &Path) -> Vec<PathBuf> {
    let root = |program: &Path| Some(program.parent()?.parent()?.to_owned());
    let environment = root(program).filter(|root| root.join("pyvenv.cfg").exists());
    let installed = program.canonicalize().ok().and_then(|program| {
        let root = root(&program)?;
        Some([root.join("lib"), program])
    });
    environment
        .into_iter()
        .chain(installed.into_iter().flatten())
        .filter(|path| path.exists())
        .collect()
}

/// A pool's confinement as far as this machine grants it: the keys, each with the reason if it does not.
#[derive(Debug)]
pub struct CheckedConfinement {
    /// The pool's name.
    pub pool: String,
    /// The keys of its `[pool.NAME.confine]`.
    pub keys: Vec<(&'static str, Result<(), ConfinementError>)>,
}

/// Tries what each pool of a configuration confines its workers by, on this machine and as this user.
pub fn check_confinements(config: &Config) -> Vec<CheckedConfinement> {
    let check = |(name, pool): (&String, &config::Pool)| {
        let keys = match confinement(name, pool, config, None) {
            Ok(confinement) => confinement?.try_each(),
            Err(error) => vec![(error.error.key, Err(error.error))],
        };
        Some(CheckedConfinement {
            pool: name.clone(),
            keys,
        })
    };
    config.pools.iter().filter_map(check).collect()
}
