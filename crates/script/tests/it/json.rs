//! JSON of handlers' return values: identical to the output of `JSON.stringify`.

use forebay_script::{Allow, Failure, Limits};

use crate::scripts::{Fixture, LIMITS, get, outcome};

/// Values that are created for each request. `/text/N` answers with the result of `JSON.stringify` for the Nth, `/value/N` with the value
/// itself.
const HANDLER: &str = r#"
import { text } from 'forebay';

class Point { x = 1; #y = 2; get z() { return 3; } }
class Named { toJSON(key) { return `under ${key}`; } }
const nested = (depth) => { let value = 'deep'; while (depth-- > 0) value = depth % 2 ? [value] : { value }; return value; };
const circle = () => { const a = { b: [] }; a.b.push(a); return a; };
let reads = 0;

export const values = [
  () => ({}),
  () => [],
  () => ({ hello: 'world', n: 1, yes: true, no: false, nothing: null }),
  () => ({ b: 1, a: 2, 10: 3, 9: 4, [Symbol('s')]: 5, __proto__: { inherited: 6 } }),
  () => JSON.parse('{"__proto__":{"admin":true},"constructor":[1]}'),
  () => Object.assign(Object.create(null), { __proto__: { own: [2] }, other: new Named() }),
  () => ({ f() {}, s: Symbol('s'), u: undefined, last: 1 }),
  () => [() => 1, Symbol('s'), undefined, , null],
  () => Object.assign([1, 2], { extra: 3 }),
  () => Object.defineProperty([1, 2, 3], 1, { get: () => 'got' }),
  () => new Array(5),
  () => [0, -0, 1.5, -1e-7, 1e21, 123456789012345680000, 999999999999999, 1e15, 2 ** 53, -(2 ** 31), 2 ** 32, 0.1 + 0.2, NaN, Infinity, 5e-324],
  () => ({ '': '', 'quote"\\': 'tab\t\n\r\b\f\v\0\x1f\x7f', 'ä€😀': 'ä€😀\u2028', lone: '\ud800 \udfff', '\ud800': 1 }),
  () => ({ rope: ['x'.repeat(700), 'y'].join('') + 'z'.repeat(9000) + '\n' }),
  () => ({ date: new Date(0), map: new Map([[1, 2]]), point: new Point(), error: new Error('e'), regexp: /x/, bytes: new Uint8Array([1, 2]) }),
  () => ({ named: new Named(), list: [new Named(), new Named()], f: Object.assign(() => 1, { toJSON: (key) => key }) }),
  () => ({ dropped: { toJSON() {} }, symbol: { toJSON: () => Symbol('s') }, kept: { toJSON: () => null } }),
  () => ({ number: new Number(1.5), text: new String('t'), flag: new Boolean(false), big: Object.create(new Date(0)) }),
  () => ({ get counted() { return ++reads > 0; }, set unread(value) {} }),
  () => Object.defineProperty({ shown: 1 }, 'hidden', { value: 2 }),
  () => Object.create({}, { own: { value: 1, enumerable: true } }),
  () => ({ proxy: new Proxy({ a: 1 }, {}), list: new Proxy([1, 2], {}), then: 1 }),
  () => nested(3),
  () => nested(63),
  () => nested(64),
  () => nested(65),
  () => nested(300),
  () => ({ inner: nested(200), after: 1 }),
  () => circle(),
  () => ({ big: 1n }),
  () => ({ get thrown() { throw new RangeError('thrown'); } }),
  () => ({ toJSON: () => 'instead' }),
  () => ({ toJSON: 1, other: 2 }),
  () => [{ a: [{ b: [{}] }] }, [], [[]], 'x'],
  () => [{ a: undefined, b: 1 }, { a: 1, b: undefined, c: 2 }, { a: 2, b: 3, c: 4 }],
  () => [1, 2].map((step) => Object.fromEntries(Array.from({ length: 40 }, (_, index) => [`k${index * step}`, index]))),
  () => ({ 'é"': 1, inner: { 'é"': '\ud800', 'k\n': 2 }, again: [{ 'k\n': 3, 'é"': () => 1 }, { 'é"': 4 }] }),
];

export default (request) => {
  const [, what, number] = request.path.split('/');
  if (what === 'much') return new Array(1000).fill('x'.repeat(100_000));
  if (what === 'count') return { count: values.length };
  const value = values[number]();
  if (what === 'value') return value;
  try {
    return text(JSON.stringify(value));
  } catch (error) {
    return text(String(error), { status: 500 });
  }
};
"#;

#[test]
fn what_handlers_return_is_written_as_json_stringify_writes_it() {
    let fixture = Fixture::new(HANDLER);
    let mut io = fixture.io();
    let count = io.call(&get("/count")).unwrap();
    let (_, count) = outcome(&count);
    let count: u32 = count
        .trim_matches(|byte: char| !byte.is_ascii_digit())
        .parse()
        .unwrap();
    for number in 0..count {
        let expected = io.call(&get(&format!("/text/{number}"))).unwrap();
        let answer = io.call(&get(&format!("/value/{number}"))).unwrap();
        let (status, body) = outcome(&expected);
        if status == 200 {
            assert_eq!(outcome(&answer), (status, body), "value {number}");
        } else {
            assert_eq!(outcome(&answer).0, 500, "value {number}: {body}");
        }
    }
}

#[test]
fn what_is_longer_than_an_answer_may_be_is_not_written_to_its_end() {
    let limits = Limits {
        memory_max: 16 << 20,
        output_max: 1 << 20,
        ..LIMITS
    };
    let fixture = Fixture::with(HANDLER, limits, Allow::default());
    let failure = fixture.executor(&get("/much")).unwrap_err();
    assert_eq!(failure, Failure::Output { output_max: 1 << 20 });
}
