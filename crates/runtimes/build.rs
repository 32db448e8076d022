//! Embeds the SDKs into the binary: the JavaScript SDK as built by `make sdk`, and the Python sources in a folder `python`. `FOREBAY_ADDON` names
//! another addon than that of this machine, for a binary that is built for another system.

use std::{
    env,
    fmt::Write as _,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    io::Write as _,
    path::{Path, PathBuf},
};

fn main() {
    // Read at run time: checkouts that share a target folder may also share this compiled script.
    let here = env::var_os("CARGO_MANIFEST_DIR").expect("cargo names the folder of the package");
    let package = Path::new(&here).join("../../sdk/node");
    println!("cargo::rerun-if-changed={}", package.join("dist").display());
    println!(
        "cargo::rerun-if-changed={}",
        package.join("package.json").display()
    );
    println!("cargo::rerun-if-env-changed=FOREBAY_ADDON");
    let addon = env::var_os("FOREBAY_ADDON").map(PathBuf::from);
    if let Some(addon) = &addon {
        println!("cargo::rerun-if-changed={}", addon.display());
    }
    let python = package.join("../python");
    let mut files = vec![package.join("package.json")];
    collect(&package.join("dist"), &["js", "node"], &mut files);
    let mut python_files = vec![python.join("__main__.py")];
    collect(&python.join("forebay"), &["py", "typed"], &mut python_files);
    // Not the folder, because Python writes its caches into it.
    for file in &python_files {
        println!("cargo::rerun-if-changed={}", file.display());
    }
    files.sort();
    python_files.sort();
    let has = |name: &str| files.iter().any(|file| file.ends_with(name));
    if !has("dist/worker.js") || !has("dist/forebay.node") {
        println!("cargo::error=sdk/node/dist is not built: run `make sdk` first");
        return;
    }
    let mut hasher = DefaultHasher::new();
    let mut table = String::from("&[\n");
    let node = files.iter().map(|file| (file, &*package, Path::new("")));
    let all = node.chain(
        python_files
            .iter()
            .map(|file| (file, &*python, Path::new("python"))),
    );
    for (file, base, below) in all {
        let name = below.join(
            file.strip_prefix(base)
                .expect("files lie inside of their package"),
        );
        let file = match &addon {
            Some(addon) if name.ends_with("dist/forebay.node") => addon,
            _ => file,
        };
        let bytes = fs::read(file).expect("a file that was listed can be read");
        (&name, &bytes).hash(&mut hasher);
        let (name, file) = (name.display().to_string(), file.display().to_string());
        writeln!(table, "({name:?}, include_bytes!({file:?})),").expect("a String takes everything");
    }
    table.push(']');
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder for output"));
    let mut generated = fs::File::create(out.join("sdk.rs")).expect("the output folder can be written");
    write!(
        generated,
        "Embedded {{ hash: {:?}, files: {table} }}",
        format!("{:016x}", hasher.finish())
    )
    .expect("the output folder can be written");
}

fn collect(folder: &Path, endings: &[&str], files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, endings, files);
        } else if path
            .extension()
            .is_some_and(|ending| endings.iter().any(|known| ending == *known))
        {
            files.push(path);
        }
    }
}
