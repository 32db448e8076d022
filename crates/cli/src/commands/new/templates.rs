//! The templates of new applications, and their files.

use super::kinds::Kinds;

/// A starting point for applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Template {
    /// A handler in JavaScript that worker processes run
    Api,
    /// A handler in TypeScript that keeps notes in the store, with a test
    Typescript,
    /// A handler in Python, with a test
    Python,
    /// Records of kinds: a controller inside the server, and a page to look at them and edit them
    Records,
}

/// Path in the application's folder, and text.
type Files = &'static [(&'static str, &'static str)];

/// The file of `scaffold/` with this name.
macro_rules! scaffold {
    ($name:literal) => {
        include_str!(concat!("../../../scaffold/", $name))
    };
}

const API: Files = &[
    ("forebay.toml", scaffold!("api/forebay.toml")),
    ("handlers/api.mjs", scaffold!("api/handlers/api.mjs")),
    ("README.md", scaffold!("api/README.md")),
    (".gitignore", scaffold!("gitignore")),
];

const TYPESCRIPT: Files = &[
    ("forebay.toml", scaffold!("typescript/forebay.toml")),
    ("handlers/api.ts", scaffold!("typescript/handlers/api.ts")),
    ("test/api.test.ts", scaffold!("typescript/test/api.test.ts")),
    ("tsconfig.json", scaffold!("typescript/tsconfig.json")),
    ("package.json", scaffold!("typescript/package.json")),
    ("README.md", scaffold!("typescript/README.md")),
    (".gitignore", scaffold!("gitignore")),
];

const PYTHON: Files = &[
    ("forebay.toml", scaffold!("python/forebay.toml")),
    ("api.py", scaffold!("python/api.py")),
    ("test_api.py", scaffold!("python/test_api.py")),
    ("README.md", scaffold!("python/README.md")),
    (".gitignore", scaffold!("python/gitignore")),
];

const RECORDS: Files = &[
    ("forebay.toml", scaffold!("records/forebay.toml")),
    ("handlers/records.mjs", scaffold!("records/handlers/records.mjs")),
    ("public/kinds.mjs", scaffold!("records/public/kinds.mjs")),
    ("public/index.html", scaffold!("records/public/index.html")),
    ("public/site/site.css", scaffold!("records/public/site/site.css")),
    ("public/site/app.mjs", scaffold!("records/public/site/app.mjs")),
    (
        "public/site/dialog.mjs",
        scaffold!("records/public/site/dialog.mjs"),
    ),
    ("public/site/dom.mjs", scaffold!("records/public/site/dom.mjs")),
    (
        "public/site/fields.mjs",
        scaffold!("records/public/site/fields.mjs"),
    ),
    ("public/site/form.mjs", scaffold!("records/public/site/form.mjs")),
    ("public/site/icon.svg", scaffold!("records/public/site/icon.svg")),
    ("public/site/json.mjs", scaffold!("records/public/site/json.mjs")),
    ("public/site/list.mjs", scaffold!("records/public/site/list.mjs")),
    (
        "public/site/record.mjs",
        scaffold!("records/public/site/record.mjs"),
    ),
    (
        "public/site/server.mjs",
        scaffold!("records/public/site/server.mjs"),
    ),
    ("README.md", scaffold!("records/README.md")),
    (".gitignore", scaffold!("records/gitignore")),
];

/// The paragraph of the README that goes with `seed.ndjson`.
const SEED: &str = scaffold!("records/seed.md");

impl Template {
    /// The files of the template, each with its path in the application's folder.
    pub(super) fn files(self, kinds: &Kinds) -> Vec<(&'static str, String)> {
        let unchanged = |files: Files| {
            files
                .iter()
                .map(|&(name, text)| (name, text.to_owned()))
                .collect()
        };
        match self {
            Self::Api => unchanged(API),
            Self::Typescript => unchanged(TYPESCRIPT),
            Self::Python => unchanged(PYTHON),
            Self::Records => {
                let seed = kinds.seed();
                let about_seed = if seed.is_empty() { "" } else { SEED };
                let filled = |text: &str| {
                    text.replace("{{kinds}}\n", &kinds.descriptions())
                        .replace("{{access}}\n", &kinds.access())
                        .replace("{{names}}", &kinds.names())
                        .replace("{{seed}}\n", about_seed)
                        .replace("{{first}}", kinds.first())
                };
                let mut files: Vec<_> = RECORDS.iter().map(|&(name, text)| (name, filled(text))).collect();
                if !seed.is_empty() {
                    files.push(("seed.ndjson", seed));
                }
                files
            }
        }
    }
}
