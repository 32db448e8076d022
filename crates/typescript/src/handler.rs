//! Finds what keeps a file from being loaded as the handler of a JavaScript pool, without running it: invalid syntax, types that cannot be
//! erased, and a module that certainly exports no handler. What a file imports is not looked at.

use std::path::Path;

use swc_common::{FileName, GLOBALS, Globals, SourceMap, Spanned, sync::Lrc};
use swc_ecma_ast::{Decl, EsVersion, ExportSpecifier, ModuleDecl, ModuleItem, Pat, Program};
use swc_ecma_parser::{
    EsSyntax, Syntax, TsSyntax, parse_file_as_commonjs, parse_file_as_module, parse_file_as_program,
};

use crate::{Problem, on_deep_stack, strip};

/// Longest handler that is looked at, in bytes, and how deep its brackets may nest. They bound the recursion along the syntax tree.
const BYTES_MAX: usize = 128 << 10;
const NESTING_MAX: usize = 1000;
/// Without one of these words, a file that is no ES module exports nothing.
const WORDS_OF_COMMONJS: [&str; 4] = ["exports", "module", "this", "eval"];
/// A file with one of these may start a server, or load another file that does.
const WORDS_OF_SERVERS: [&str; 6] = [
    "listen",
    "serve(",
    ".start(",
    "import(",
    "require('.",
    "require(\".",
];
const NO_HANDLER: &str = "exports no handler and does not listen: expected `export default` of a router(), a function (request, ctx), \
                          an object with fetch(request, ctx) or an application of Express, Fastify, Koa, Hono, ..., or a call of \
                          listen()";

/// Finds what keeps Node or Bun from loading a file as a handler: the first syntax error, all types that cannot be erased, or that it exports no
/// handler. Nothing is found in a file with an unknown extension, of more than 128 KiB or with more than 1000 nested brackets.
pub fn handler_problems(source: &str, file: &Path, is_bun: bool) -> Vec<Problem> {
    if source.len() > BYTES_MAX || nests_deeply(source) {
        return Vec::new();
    }
    on_deep_stack(|| find(source, file, is_bun)).unwrap_or_default()
}

/// Counts brackets in texts and comments, too.
fn nests_deeply(source: &str) -> bool {
    let mut depth = 0_usize;
    source.bytes().any(|byte| {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > NESTING_MAX
    })
}

/// How a file is parsed.
#[derive(Clone, Copy)]
enum Grammar {
    Module,
    CommonJs,
    /// A module if it has `import` or `export`.
    Either,
}

fn find(source: &str, file: &Path, is_bun: bool) -> Vec<Problem> {
    let extension = file.extension().unwrap_or_default().to_str().unwrap_or_default();
    let is_package = file.components().any(|part| part.as_os_str() == "node_modules");
    let javascript = Syntax::Es(EsSyntax {
        jsx: is_bun,
        decorators: is_bun,
        decorators_before_export: is_bun,
        auto_accessors: is_bun,
        explicit_resource_management: true,
        allow_return_outside_function: extension != "mjs",
        ..EsSyntax::default()
    });
    match extension {
        "ts" | "mts" if !is_package => match strip(source, &file.to_string_lossy()) {
            Ok(erased) => parse(erased, javascript, Grammar::Module, is_bun),
            Err(refused) => refused.problems,
        },
        "mjs" => parse(source.to_owned(), javascript, Grammar::Module, is_bun),
        "cjs" if !is_bun => parse(source.to_owned(), javascript, Grammar::CommonJs, is_bun),
        "js" | "cjs" | "jsx" => parse(source.to_owned(), javascript, Grammar::Either, is_bun),
        "cts" | "tsx" => {
            let typescript = Syntax::Typescript(TsSyntax {
                tsx: extension == "tsx",
                decorators: true,
                ..TsSyntax::default()
            });
            parse(source.to_owned(), typescript, Grammar::Either, is_bun)
        }
        _ => Vec::new(),
    }
}

fn parse(source: String, syntax: Syntax, grammar: Grammar, is_bun: bool) -> Vec<Problem> {
    let map = SourceMap::default();
    let file = map.new_source_file(Lrc::new(FileName::Anon), source);
    let mut errors = Vec::new();
    let (version, all) = (EsVersion::latest(), &mut errors);
    let program = GLOBALS.set(&Globals::new(), || match grammar {
        Grammar::Module => parse_file_as_module(&file, syntax, version, None, all).map(Program::Module),
        Grammar::CommonJs => parse_file_as_commonjs(&file, syntax, version, None, all).map(Program::Script),
        Grammar::Either => parse_file_as_program(&file, syntax, version, None, all),
    });
    let exports_none = match program {
        Err(error) => {
            errors.push(error);
            false
        }
        Ok(program) => {
            let may_be_handler =
                may_export_handler(&program, &file.src, is_bun) || may_listen(&program, &file.src);
            errors.is_empty() && !may_be_handler
        }
    };
    // Those after the first mostly follow from it.
    let first = errors.iter().min_by_key(|error| error.span().lo);
    let first = first.map(|error| {
        let place = map.lookup_char_pos(error.span().lo);
        Problem {
            line: place.line,
            column: place.col.0 + 1,
            message: format!("SyntaxError: {}", error.kind().msg()),
        }
    });
    let no_handler = exports_none.then(|| Problem {
        line: 1,
        column: 1,
        message: NO_HANDLER.to_owned(),
    });
    first.or(no_handler).into_iter().collect()
}

/// Whether a file may export `default` or `handler`. Bun lets an ES module assign to `module.exports`.
fn may_export_handler(program: &Program, source: &str, is_bun: bool) -> bool {
    let may_be_commonjs = || WORDS_OF_COMMONJS.iter().any(|word| source.contains(word));
    match program {
        Program::Script(_) => may_be_commonjs(),
        Program::Module(module) => module.body.iter().any(exports_handler) || is_bun && may_be_commonjs(),
    }
}

/// Whether a file may start a server, itself or by a file that it imports from its own package.
fn may_listen(program: &Program, source: &str) -> bool {
    let imports_file = |item: &ModuleItem| match item {
        ModuleItem::ModuleDecl(ModuleDecl::Import(import)) => {
            import.src.value.to_string_lossy().starts_with(['.', '/'])
        }
        _ => false,
    };
    WORDS_OF_SERVERS.iter().any(|word| source.contains(word))
        || matches!(program, Program::Module(module) if module.body.iter().any(imports_file))
}

fn exports_handler(item: &ModuleItem) -> bool {
    let is_handler = |name: &str| matches!(name, "default" | "handler");
    match item {
        ModuleItem::Stmt(_) | ModuleItem::ModuleDecl(ModuleDecl::Import(_)) => false,
        ModuleItem::ModuleDecl(ModuleDecl::ExportDecl(export)) => match &export.decl {
            Decl::Class(class) => is_handler(&class.ident.sym),
            Decl::Fn(function) => is_handler(&function.ident.sym),
            Decl::Var(variables) => variables.decls.iter().any(|variable| match &variable.name {
                Pat::Ident(name) => is_handler(&name.sym),
                _ => true,
            }),
            _ => true,
        },
        ModuleItem::ModuleDecl(ModuleDecl::ExportNamed(export)) => {
            export.specifiers.iter().any(|specifier| match specifier {
                ExportSpecifier::Namespace(namespace) => is_handler(&namespace.name.atom()),
                ExportSpecifier::Named(name) => {
                    is_handler(&name.exported.as_ref().unwrap_or(&name.orig).atom())
                }
                ExportSpecifier::Default(_) => true,
            })
        }
        ModuleItem::ModuleDecl(_) => true,
    }
}
