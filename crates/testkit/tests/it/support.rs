//! What the tests of several subjects start with.

use forebay_testkit::Setup;

/// One pool `api` of a module, and a route for every path that leads to it. `keys` are further keys of the pool.
pub(crate) fn pool_of(module: &str, source: &str, keys: &str) -> Setup {
    let config =
        format!("[pool.api]\nhandler = \"{module}\"\n{keys}\n[[route]]\npath = \"/*\"\npool = \"api\"\n");
    Setup::new(&config).file(module, source)
}

/// A Node pool; see [`pool_of`].
pub(crate) fn node(source: &str, keys: &str) -> Setup {
    pool_of("api.mjs", source, &format!("runtime = \"node\"\n{keys}"))
}

/// A Bun pool; see [`pool_of`].
pub(crate) fn bun(source: &str, keys: &str) -> Setup {
    pool_of("api.mjs", source, &format!("runtime = \"bun\"\n{keys}"))
}

/// A pool `fake` of fake workers that start in this way, at every path; beside it `/here`, answered without a worker.
pub(crate) fn fake(start: &str, keys: &str) -> Setup {
    let program = env!("CARGO_BIN_EXE_fake-worker");
    Setup::new(&format!(
        "[pool.fake]\ncommand = [\"{program}\", \"{start}\"]\n{keys}\n[[route]]\npath = \"/*\"\npool = \"fake\"\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
}
