// Each case is a function that gives what it has found and what is right; both are compared as JSON.
import { sleep } from 'forebay';

const bytes = (...values) => new Uint8Array(values);
const error = async (work) => {
  try {
    await work();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
  return 'no error';
};

const cases = {
  query: () => {
    const query = new URLSearchParams('?a=1&b=%C3%A9+x&a=2&c&%ff=z');
    query.append('d', '&=é');
    query.delete('a', '1');
    return [[[...query], String(query), query.size, query.get('none')], [[['b', 'é x'], ['a', '2'], ['c', ''], ['\ufffd', 'z'], ['d', '&=é']], 'b=%C3%A9+x&a=2&c=&%EF%BF%BD=z&d=%26%3D%C3%A9', 5, null]];
  },
  queries_of_pairs_and_objects: () => [
    [String(new URLSearchParams({ b: 1, a: 'x y' })), String(new URLSearchParams([['q', '1'], ['q', '2']])), String(new URLSearchParams(new URLSearchParams('z=1')))],
    ['b=1&a=x+y', 'q=1&q=2', 'z=1'],
  ],
  url: async () => {
    const url = new URL('../b?x=1#h', 'HTTP://User:pw@Exämple.org:80/a/c/d');
    url.searchParams.append('y', 'ä b');
    url.port = '8080';
    url.hash = '';
    return [
      [url.href, url.host, url.origin, url.username, url.search, JSON.stringify({ url }), await error(() => new URL('nope')), URL.canParse('nope')],
      ['http://User:pw@xn--exmple-cua.org:8080/a/b?x=1&y=%C3%A4+b', 'xn--exmple-cua.org:8080', 'http://xn--exmple-cua.org:8080', 'User', '?x=1&y=%C3%A4+b', '{"url":"http://User:pw@xn--exmple-cua.org:8080/a/b?x=1&y=%C3%A4+b"}', 'TypeError: Invalid URL', false],
    ];
  },
  parts_of_a_url: async () => {
    const parts = ['protocol', 'username', 'password', 'hostname', 'port', 'pathname', 'search', 'hash'];
    const values = ['http:', 'u', 'p', 'localhost', '81', '/a', '?x=1', '#h'];
    const url = new URL('https://example.org');
    const query = url.searchParams;
    parts.forEach((part, at) => (url[part] = values[at]));
    const kept = await error(() => (url.href = 'nope'));
    const set = [parts.map((part) => url[part]), url.href, query.get('x'), kept];
    url.href = 'http://b/?x=2';
    return [[...set, url.host, query.get('x')], [values, 'http://u:p@localhost:81/a?x=1#h', '1', 'TypeError: Invalid URL', 'b', '2']];
  },
  text: () => {
    const decoder = new TextDecoder();
    const streamed = decoder.decode(bytes(0xef, 0xbb, 0xbf, 0xf0, 0x9f), { stream: true }) + decoder.decode(bytes(0x98, 0x80, 0xc3));
    return [
      [[...new TextEncoder().encode('é\ud800')], streamed, new TextDecoder('latin1').decode(bytes(0x80, 0xe9)), new TextDecoder('utf-16le').decode(bytes(0x3d, 0xd8, 0, 0xde)), new TextEncoder().encodeInto('aé😀', new Uint8Array(4))],
      [[0xc3, 0xa9, 0xef, 0xbf, 0xbd], '😀\ufffd', '€é', '😀', { read: 2, written: 3 }],
    ];
  },
  text_that_must_be_right: async () => [
    await error(() => new TextDecoder('utf-8', { fatal: true }).decode(bytes(0xff))),
    'TypeError: The encoded data was not valid for encoding utf-8',
  ],
  base64: async () => [[btoa('\xff\x00a'), atob('/wBh').charCodeAt(0), (await error(() => btoa('€'))).split(':')[0]], ['/wBh', 255, 'InvalidCharacterError']],
  random: async () => {
    const id = crypto.randomUUID();
    const words = crypto.getRandomValues(new Uint32Array(8));
    return [
      [/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id), id !== crypto.randomUUID(), words.some((word) => word !== 0), (await error(() => crypto.getRandomValues(new Uint8Array(65_537)))).split(':')[0]],
      [true, true, true, 'QuotaExceededError'],
    ];
  },
  digests: async () => {
    const hex = async (name) => [...new Uint8Array(await crypto.subtle.digest(name, new TextEncoder().encode('abc')))].map((byte) => (byte + 256).toString(16).slice(1)).join('');
    return [
      [await hex('SHA-1'), await hex('sha-256'), (await hex({ name: 'SHA-384' })).slice(0, 8), (await hex('SHA-512')).slice(0, 8), await error(() => hex('MD5'))],
      ['a9993e364706816aba3e25717850c26c9cd0d89d', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'cb00753f', 'ddaf35a1', 'NotSupportedError: Unrecognized algorithm name'],
    ];
  },
  clone: async () => {
    const value = { date: new Date(0), map: new Map([[{ a: 1 }, new Set([1n])]]), bytes: bytes(1, 2), error: new RangeError('r'), list: [1, , 3], nothing: undefined };
    value.self = value;
    const copy = structuredClone(value);
    copy.bytes[0] = 9;
    return [
      [copy !== value, copy.self === copy, copy.date.getTime(), [...copy.map][0][0].a, [...[...copy.map][0][1]].map(String), value.bytes[0], copy.error instanceof RangeError, copy.error.message, 1 in copy.list, 'nothing' in copy, await error(() => structuredClone(() => {})), structuredClone(new Buffer1([1])) instanceof Uint8Array],
      [true, true, 0, 1, ['1'], 1, true, 'r', false, true, 'DataCloneError: () => {} could not be cloned.', true],
    ];
  },
  events: () => {
    const said = [];
    const target = new EventTarget();
    const once = (event) => said.push(`once ${event.type}`);
    target.addEventListener('x', once, { once: true });
    target.addEventListener('x', { handleEvent: (event) => { said.push(event.target === target); event.preventDefault(); } });
    said.push(target.dispatchEvent(new Event('x', { cancelable: true })), target.dispatchEvent(new CustomEvent('x', { detail: 7 })));
    return [said, ['once x', true, true, false, true]];
  },
  events_whose_listeners_come_and_go_meanwhile: () => {
    const said = [];
    const target = new EventTarget();
    const third = () => said.push('third');
    target.addEventListener('x', () => {
      said.push('first');
      target.removeEventListener('x', third);
    }, { once: true });
    target.addEventListener('x', () => said.push('second'));
    target.addEventListener('x', third);
    target.dispatchEvent(new Event('x'));
    const other = new EventTarget();
    let calls = 0;
    const again = () => {
      if (++calls < 100) other.addEventListener('x', () => again());
    };
    other.addEventListener('x', again);
    other.dispatchEvent(new Event('x'));
    return [[said, calls], [['first', 'second'], 1]];
  },
  abort: async () => {
    const controller = new AbortController();
    const any = AbortSignal.any([controller.signal, AbortSignal.timeout(60_000)]);
    const said = [];
    any.addEventListener('abort', () => said.push(any.reason.name));
    any.onabort = () => said.push('on');
    controller.abort();
    controller.abort('again');
    return [
      [said, any.aborted, await error(() => any.throwIfAborted()), AbortSignal.abort(7).reason, await error(() => new AbortSignal()), controller.signal.reason === any.reason, any.reason instanceof DOMException],
      [['AbortError', 'on'], true, 'AbortError: This operation was aborted', 7, 'TypeError: Illegal constructor', true, true],
    ];
  },
  abort_after_a_time: async () => {
    const signal = AbortSignal.timeout(5);
    return [await error(() => sleep(60_000, { signal })), 'TimeoutError: The operation was aborted due to timeout'];
  },
  sleeps_that_are_too_long: async () => [
    [await error(() => sleep(3e9)), await error(() => sleep(Infinity)), await error(() => sleep(NaN)), await error(() => sleep(-1))],
    ['RangeError: a sleep takes at most 2147483647 milliseconds, not 3000000000', 'RangeError: a sleep takes at most 2147483647 milliseconds, not Infinity', 'RangeError: a sleep takes at most 2147483647 milliseconds, not NaN', 'no error'],
  ],
  timers: async () => {
    const said = [];
    await new Promise((resolve) => {
      const cleared = setTimeout(() => said.push('never'), 1);
      clearTimeout(cleared);
      let ticks = 0;
      const interval = setInterval(() => {
        said.push(`tick ${++ticks}`);
        if (ticks === 3) {
          clearInterval(interval);
          setTimeout(resolve, 15);
        }
      }, 2);
      setTimeout((a, b) => said.push(a + b), 0, 'a', 'b');
      queueMicrotask(() => said.push('micro'));
      said.push('now');
    });
    return [[said[0], said[1], said.includes('ab'), said.filter((word) => word.startsWith('tick')), said.length], ['now', 'micro', true, ['tick 1', 'tick 2', 'tick 3'], 6]];
  },
  headers: async () => {
    const headers = new Headers({ B: ' 2 ', a: '1' });
    headers.append('set-cookie', 'x=1');
    headers.append('Set-Cookie', 'y=2');
    headers.append('b', '3');
    return [
      [[...headers], headers.getSetCookie(), headers.get('B'), headers.has('none'), await error(() => new Headers([['a']])), (await error(() => headers.set('a b', ''))).split(':')[0]],
      [[['a', '1'], ['b', '2, 3'], ['set-cookie', 'x=1'], ['set-cookie', 'y=2']], ['x=1', 'y=2'], '2, 3', false, 'TypeError: each pair of headers is a name and a value', 'TypeError'],
    ];
  },
  requests_and_responses: async () => {
    const request = new Request('http://a.example/x?y', { method: 'post', body: new URLSearchParams('a=1'), headers: { 'X-A': 'b' } });
    const copy = request.clone();
    const response = new Response('é', { status: 201, headers: { 'x-b': 'c' } });
    const other = response.clone();
    return [
      [request.method, request.headers.get('content-type'), await request.text(), request.bodyUsed, await copy.text(), await error(() => request.text()), response.ok, [...response.headers], [...(await response.bytes())], await other.text(), await Response.json({ a: 1 }).json(), Response.redirect('http://a.example/').headers.get('location'), await error(() => new Request('http://a.example', { body: 'x' })), new Response(null).body],
      ['POST', 'application/x-www-form-urlencoded;charset=UTF-8', 'a=1', true, 'a=1', 'TypeError: Body is unusable: Body has already been read', true, [['content-type', 'text/plain;charset=UTF-8'], ['x-b', 'c']], [0xc3, 0xa9], 'é', { a: 1 }, 'http://a.example/', 'TypeError: Request with GET/HEAD method cannot have body.', null],
    ];
  },
  types_of_blobs: async () => {
    const form = new FormData();
    form.append('f', new File(['x'], 'n', { type: 'a/b\r\nx-forged: 1' }));
    return [
      [new Blob([], { type: 'Text/PLAIN; a="b~ "' }).type, new Blob([], { type: 'a\u007f' }).type, new Blob(['x']).slice(0, 1, 'a\n').type, new File([], 'n', { type: 'é/x' }).type, (await new Response(form).text()).split('\r\n')[2], new Blob([], { type: undefined }).type],
      ['text/plain; a="b~ "', '', '', '', 'content-type: application/octet-stream', ''],
    ];
  },
  names_that_objects_inherit: async () => {
    const copy = structuredClone(JSON.parse('{"__proto__":{"admin":true}}'));
    const odd = new Error('odd');
    odd.name = 'constructor';
    const parsed = JSON.parse('{"__proto__":{"admin":true},"a":[{"__proto__":1}]}');
    const moved = new ArrayBuffer(1);
    const transferred = structuredClone(JSON.parse('{"a":1}', function (key, value) { return key === '' ? Object.defineProperty(value, '__proto__', { value: moved, enumerable: true, configurable: true, writable: true }) : value; }), { transfer: [moved] });
    return [
      [copy.admin ?? null, JSON.stringify(structuredClone(parsed)), Object.getPrototypeOf(structuredClone(odd)) === Error.prototype, (await error(() => new TextDecoder('constructor'))).split(':')[0], (await error(() => new TextDecoder('__proto__'))).split(':')[0], Object.hasOwn(transferred, '__proto__'), Object.getPrototypeOf(transferred) === Object.prototype],
      [null, '{"__proto__":{"admin":true},"a":[{"__proto__":1}]}', true, 'RangeError', 'RangeError', true, true],
    ];
  },
  bodies_that_were_read: async () => {
    const response = new Response('x');
    await response.text();
    const { body } = response;
    return [
      [response.bodyUsed, (await error(() => new Response(body))).split(':')[0], (await error(() => response.clone())).split(':')[0]],
      [true, 'TypeError', 'TypeError'],
    ];
  },
  forms: async () => {
    const form = new FormData();
    form.append('a', '1');
    form.append('f', new File(['hé'], 'x".txt', { type: 'text/plain' }));
    const read = await new Response(form).formData();
    const file = read.get('f');
    return [[[...read.keys()], read.get('a'), file.name, file.type, file.size, await file.text()], [['a', 'f'], '1', 'x".txt', 'text/plain', 3, 'hé']];
  },
  written_streams: async () => {
    const said = [];
    let release;
    const slow = new WritableStream({
      write: (chunk) => new Promise((resolve) => { said.push(chunk); release = resolve; }),
      close: () => void said.push('closed'),
    }, { highWaterMark: 2 });
    const writer = slow.getWriter();
    const first = writer.write('a');
    const second = writer.write('b');
    const sizes = [slow.locked, writer.desiredSize];
    await sleep(1);
    release();
    await first;
    sizes.push(writer.desiredSize);
    await writer.ready;
    await sleep(1);
    release();
    await second;
    await writer.close();
    await writer.closed;
    const late = await error(() => writer.write('c'));
    const failing = new WritableStream({ write: () => { throw new Error('full'); }, abort: () => void said.push('not aborted') }).getWriter();
    const failed = [await error(() => failing.write(1)), await error(() => failing.write(2)), await error(() => failing.closed)];
    const aborted = new WritableStream({ abort: (reason) => void said.push(reason) });
    await aborted.abort('why');
    return [[sizes, said, late.split(':')[0], failed], [[true, 0, 1], ['a', 'b', 'closed', 'why'], 'TypeError', ['Error: full', 'Error: full', 'Error: full']]];
  },
  transformed_streams: async () => {
    const upper = new TransformStream({
      transform: (chunk, controller) => controller.enqueue(chunk.toUpperCase()),
      flush: (controller) => controller.enqueue('!'),
    });
    const chunks = [];
    for await (const chunk of ReadableStream.from(['a', 'b']).pipeThrough(upper)) chunks.push(chunk);
    const { readable, writable } = new TransformStream();
    const writer = writable.getWriter();
    const order = [];
    const written = writer.write(1).then(() => order.push('written'));
    await sleep(1);
    order.push('waited');
    const reader = readable.getReader();
    const read = await reader.read();
    await written;
    const closed = writer.close();
    const { done } = await reader.read();
    await closed;
    const broken = new TransformStream({ transform: () => { throw new Error('broke'); } });
    const writing = error(() => broken.writable.getWriter().write(1));
    const reading = error(() => broken.readable.getReader().read());
    const cancelled = new TransformStream();
    await cancelled.readable.cancel('enough');
    const refused = await cancelled.writable.getWriter().write(1).catch((reason) => reason);
    const piped = [];
    const target = new WritableStream({ write: (chunk) => void piped.push(chunk), close: () => void piped.push('end') });
    await ReadableStream.from([1, 2]).pipeTo(target, { preventClose: true });
    await ReadableStream.from([3]).pipeTo(target);
    const source = new ReadableStream({ pull: () => Promise.reject(new Error('source')) });
    const failing = new WritableStream({ abort: (reason) => void piped.push(reason.message) });
    const failed = await error(() => source.pipeTo(failing));
    const stopped = await error(() => new ReadableStream().pipeTo(new WritableStream(), { signal: AbortSignal.abort(new Error('stop')) }));
    return [
      [chunks, order, read.value, done, await writing, await reading, refused, piped, failed, stopped],
      [['A', 'B', '!'], ['waited', 'written'], 1, true, 'Error: broke', 'Error: broke', 'enough', [1, 2, 3, 'end', 'source'], 'Error: source', 'Error: stop'],
    ];
  },
  streams: async () => {
    const said = [];
    const stream = new ReadableStream({
      start: (controller) => controller.enqueue('a'),
      async pull(controller) {
        await sleep(1);
        controller.enqueue('b');
        controller.close();
      },
      cancel: (reason) => said.push(`cancel ${reason}`),
    });
    const [left, right] = stream.tee();
    for await (const chunk of left) said.push(chunk);
    const reader = right.getReader();
    said.push((await reader.read()).value, right.locked);
    await reader.cancel('x');
    const broken = new ReadableStream({ pull: () => Promise.reject(new Error('broke')) });
    said.push(await error(async () => { for await (const chunk of broken) said.push(chunk); }));
    const early = new ReadableStream({ pull: (controller) => controller.enqueue(1), cancel: () => said.push('early') });
    for await (const chunk of early) { said.push(chunk); break; }
    const listed = [];
    for await (const chunk of ReadableStream.from([1, Promise.resolve(2)])) listed.push(chunk);
    return [[said, listed], [['a', 'b', 'a', true, 'Error: broke', 1, 'early'], [1, 2]]];
  },
  a_clock: () => [[performance.now() >= 0, performance.timeOrigin > 1e12], [true, true]],
};

class Buffer1 extends Uint8Array {}

export default async (request) => {
  if (request.path === '/') return Object.keys(cases);
  const [found, right] = await cases[request.path.slice(1)]();
  const [a, b] = [JSON.stringify(found), JSON.stringify(right)];
  return reply(a === b ? 'right' : `${a} instead of ${b}`);
};

// As JSON, whatever it is.
const reply = (text) => Response.json(text);
