//! Pools with Python handlers.

mod applications;
mod asgi;
mod faults;
mod files;
mod handlers;
mod life;
mod sql;
mod sql_pieces;
mod store;
mod websockets;

use forebay_testkit::Setup;

/// A handler with everything that the tests need.
const TOOLBOX: &str = include_str!("../handlers/toolbox.py");

/// A pool `api` of one module, `app.py`, at every path, with further keys; beside it `/here`, answered without a worker.
pub(crate) fn pool(source: &str, keys: &str) -> Setup {
    Setup::new(&format!(
        "[pool.api]\nhandler = \"app.py\"\n{keys}\n[[route]]\npath = \"/*\"\npool = \"api\"\n\
         [[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
    ))
    .file("app.py", source)
}
