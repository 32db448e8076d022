//! Controllers on standard input and output, written in other languages.

mod calls;
mod faults;
mod guide;
mod kills;
mod sdk;

use forebay_testkit::Setup;

/// A controller that responds as the last part of the path says.
const ODD: &str = include_str!("stdio/odd.cjs");

/// The dialect of a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Jsonl,
    Wabur,
}

impl Dialect {
    const BOTH: [Self; 2] = [Self::Jsonl, Self::Wabur];

    const fn name(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Wabur => "wabur",
        }
    }

    /// A pool `api` of such controllers at every path, with further keys.
    fn odd(self, keys: &str) -> Setup {
        let name = self.name();
        Setup::new(&format!(
            "[pool.api]\ncommand = [\"node\", \"odd.cjs\", \"{name}\"]\nprotocol = \"{name}\"\n{keys}\n\
             [[route]]\npath = \"/*\"\npool = \"api\"\n[[route]]\npath = \"/here\"\nrespond = {{ text = \"here\" }}\n"
        ))
        .file("odd.cjs", ODD)
        .admin()
    }
}
