//! Constructs that are erased or refused, and the positions of errors.

use forebay_typescript::strip;

#[test]
fn types_become_spaces_and_everything_else_stays() {
    for (typed, erased) in [
        ("", ""),
        ("const a: number = 1;", "const a         = 1;"),
        (
            "import type { A } from 'a';\nlet b;",
            ";                          \nlet b;",
        ),
        ("import { type B, c } from 'b';", "import {         c } from 'b';"),
        ("interface I { a: string }", ";                        "),
        ("const f = <T,>(x?: T) => x!;", "const f =     (x    ) => x ;"),
        (
            "foo<string>(1 as unknown as never);",
            "foo        (1                    );",
        ),
        ("const ü: 'é' = 'é';", "const ü      = 'é';"),
        (
            "await import('a') satisfies any;",
            "await import('a')              ;",
        ),
        (
            "class A<T> extends B<T> implements C { private x?: T; declare y: T; }",
            "",
        ),
        ("declare namespace N { const x: 1 }\nlet y;", ""),
    ] {
        let stripped = strip(typed, "api.ts").unwrap();
        assert_eq!(
            stripped.encode_utf16().count(),
            typed.encode_utf16().count(),
            "{typed}"
        );
        if !erased.is_empty() {
            assert_eq!(stripped, erased, "{typed}");
        }
    }
}

#[test]
fn every_line_and_column_stays_where_it_was() {
    let typed = "type A = {\n  a: string;\n};\nclass B {\n  constructor(a: A,\n    b?: number) {}\n  c(): void { here() }\n}\n";
    let stripped = strip(typed, "api.ts").unwrap();
    let place = |text: &str, of: &str| {
        text.lines()
            .enumerate()
            .find_map(|(line, text)| Some((line, text.find(of)?)))
    };
    for word in ["class B", "constructor", "here()"] {
        assert_eq!(place(&stripped, word), place(typed, word), "{word}");
    }
    assert_eq!(stripped.lines().count(), typed.lines().count());
}

#[test]
fn enums_become_objects_and_every_line_stays() {
    let typed = "export enum Color {\n  Red,\n  Green = 'g', // é\n}\nconst é: Color = Color.Red; enum A { b = 1 << 2, c = b | 1 }\n{\n  const enum D { e }\n  let f: number;\n}\ndeclare enum G { h }\n";
    let stripped = strip(typed, "api.ts").unwrap();
    let lines: Vec<_> = stripped.lines().map(str::trim_end).collect();
    let right = [
        "export const Color = ((Color) => { [",
        "Color[Color[\"Red\"] = 0] = \"Red\",",
        "  Color[\"Green\"] = 'g', // é",
        "]; return Color; })({});",
        "const é        = Color.Red; const A = ((A) => { [A[A[\"b\"] = 1 << 2] = \"b\", A[A[\"c\"] = A[\"b\"] | 1] = \"c\" ]; return A; })({});",
        "{",
        "  const D = ((D) => { [D[D[\"e\"] = 0] = \"e\" ]; return D; })({});",
        "  let f        ;",
        "}",
    ];
    assert_eq!(lines[..9], right);
    assert_eq!(lines.len(), 10);
}

#[test]
fn what_is_more_than_types_is_refused_at_its_place_with_what_to_write() {
    for (typed, place, advice) in [
        (
            "namespace A { export const x = 1 }",
            "api.ts:1:1: a namespace",
            "a file of its own",
        ),
        (
            "export namespace A { let x = 1 }",
            "api.ts:1:8: a namespace",
            "a file of its own",
        ),
        (
            "import x = require('x');",
            "api.ts:1:1: `import x =",
            "`import x from",
        ),
        (
            "export import x = A.b;",
            "api.ts:1:1: `import x =",
            "`import x from",
        ),
        (
            "const x = 1; export = x;",
            "api.ts:1:14: `export = x`",
            "`export default x`",
        ),
        (
            "class A { constructor(private é: 1) {} }",
            "api.ts:1:31: a parameter",
            "`this.name = name`",
        ),
        (
            "class A { constructor(public readonly z = 1) {} }",
            "api.ts:1:39: a parameter",
            "in the constructor",
        ),
        ("const é = <string>b;", "api.ts:1:11: `<T>", "`expression as T`"),
        ("const a = -1 as number ** 2;", "api.ts:1:11: ", "`(-x) ** y`"),
        (
            "class A { @dec() m() {} }",
            "api.ts:1:11: decorators",
            "call a function",
        ),
    ] {
        let error = strip(typed, "api.ts").unwrap_err().to_string();
        assert!(error.starts_with(place), "{typed}\n{error}");
        assert!(error.contains(advice), "{typed}\n{error}");
    }
}

#[test]
fn every_problem_is_told_in_the_order_of_the_file() {
    let error = strip(
        "namespace A { let b }\nenum B { C }\nnamespace C { let d }\n",
        "api.ts",
    )
    .unwrap_err();
    assert_eq!(
        error
            .problems
            .iter()
            .map(|problem| problem.line)
            .collect::<Vec<_>>(),
        [1, 3]
    );
}

#[test]
fn what_is_no_typescript_is_refused_at_its_place() {
    let error = strip("const é = 1;\nconst s = ( ;", "api.ts")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("api.ts:2:13: "), "{error}");
}
