// The golden frames of protocol/vectors: read and written byte for byte by the code of the workers.
import assert from 'node:assert/strict';
import { ftruncateSync, mkdtempSync, openSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { WireRequest } from '../dist/request.js';
import * as wire from '../dist/wire.js';
import { errorReply } from '../dist/reply.js';
import { SqlError } from '../dist/sql/error.js';
import { Page } from '../dist/worker/page.js';
import { LAYOUT } from './peer.mjs';

const folder = fileURLToPath(new URL('../../../protocol/vectors/', import.meta.url));
const hex = (text) => Buffer.from(text, 'hex');
const flat = (pairs) => pairs.flat();

/** Encodes a frame from its decoded form with our code. */
function encode({ type, flags, generation, job, slot, payload }) {
  const write = (bytes) => wire.frame(type, flags, generation, job, slot, bytes);
  if (type === wire.REQUEST) {
    const { remaining_ms, params, headers, body_hex, connection, ...text } = payload;
    const parts = { ...text, remainingMs: remaining_ms, params: flat(params), headers: flat(headers), body: hex(body_hex) };
    const behind = connection === undefined ? [] : [connection.port & 255, connection.port >> 8, Number(connection.tls), 0];
    return write(Buffer.concat([wire.requestPayload(parts), Buffer.from(behind)]));
  }
  if (type === wire.RESPONSE || type === wire.UPGRADE) {
    const { status, content, run_us, headers, body_hex } = payload;
    return wire.responseFrame(type, flags, generation, job, slot, status, content, run_us, flat(headers), hex(body_hex));
  }
  if (type === wire.WINDOW) {
    const bytes = Buffer.alloc(4);
    wire.writeU32(bytes, 0, payload.bytes);
    return write(bytes);
  }
  if (type === wire.CALL && (flags & wire.END) !== 0) return wire.callFrames(generation, job, slot, payload.call, payload.body);
  if (type === wire.CALL || type === wire.RETURN) {
    const number = Buffer.alloc(4);
    wire.writeU32(number, 0, payload.call);
    return write(Buffer.concat([number, Buffer.from(payload.body)]));
  }
  if (type === wire.ABORT) return write(Buffer.from([payload.reason]));
  if (payload.json_text !== undefined) return write(payload.json_text);
  return write(hex(payload.bytes_hex));
}

/** Decodes a REQUEST as a handler sees it, in the vector's form. */
async function decodeRequest(bytes, flags) {
  const hasConnection = (flags & wire.CONNECTION) !== 0;
  const end = bytes.length - (hasConnection ? wire.CONNECTION_BYTES : 0);
  const request = new WireRequest({ bytes, at: wire.HEADER_BYTES, end, more: null, connection: 0 });
  const body = await request.bytes();
  return {
    remaining_ms: wire.readU32(bytes, wire.HEADER_BYTES),
    method: request.method,
    path: request.path,
    query: new URL(request.url).search.slice(1),
    route: request.route,
    params: Object.entries(request.params),
    headers: [...request.headers],
    peer: request.ip,
    id: request.id,
    ...(request.user && { identity: JSON.stringify(request.user) }),
    body_hex: Buffer.from(body).toString('hex'),
    ...(hasConnection && { connection: { port: bytes.readUInt16LE(end), tls: bytes[end + 2] === 1 } }),
  };
}

/** The content of the outbox after one response. */
function throughPage({ flags, generation, job, slot, payload }) {
  const temporary = mkdtempSync(join(tmpdir(), 'forebay-vectors-'));
  try {
    const file = openSync(join(temporary, 'page'), 'w+');
    ftruncateSync(file, LAYOUT.page_bytes);
    const memory = createRequire(import.meta.url)('../dist/forebay.node').mapPage(file);
    assert.equal(memory.byteLength, LAYOUT.page_bytes);
    new Int32Array(memory)[LAYOUT.format_offset / 4] = LAYOUT.format;
    const page = Page.open(String(file), '1', generation);
    const { status, content, run_us, headers, body_hex } = payload;
    assert.ok(page.put(flags, job, slot, status, content, run_us, flat(headers), hex(body_hex), 1));
    const tail = new Int32Array(memory)[LAYOUT.outbox_tail_offset / 4];
    const length = 16 + Buffer.from(memory).readUInt32LE(LAYOUT.outbox_offset);
    assert.equal(tail, Math.ceil(length / LAYOUT.outbox_frame_align) * LAYOUT.outbox_frame_align);
    return Buffer.from(memory, LAYOUT.outbox_offset, length).toString('hex');
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

const names = readdirSync(folder).filter((name) => name.endsWith('.json'));
assert.ok(names.length > 0, `no vectors in ${folder}`);
for (const name of names) {
  const vector = JSON.parse(readFileSync(join(folder, name), 'utf8'));
  describe(`vector ${vector.name}`, () => {
    for (const [index, frame] of vector.frames.entries()) {
      const title = `frame ${index}, type 0x${frame.type.toString(16)}`;
      it(`writes ${title}`, () => assert.equal(encode(frame).toString('hex'), frame.hex));
      if (frame.type === wire.REQUEST) {
        it(`reads ${title}`, async () => assert.deepEqual(await decodeRequest(hex(frame.hex), frame.flags), frame.payload));
      }
      if (frame.type === wire.RESPONSE && (frame.flags & wire.END) !== 0) {
        it(`puts ${title} into the outbox`, () => assert.equal(throughPage(frame), frame.hex));
      }
    }
  });
}

describe('claim words', () => {
  const temporary = mkdtempSync(join(tmpdir(), 'forebay-vectors-'));
  after(() => rmSync(temporary, { recursive: true }));
  const file = openSync(join(temporary, 'page'), 'w+');
  ftruncateSync(file, LAYOUT.page_bytes);
  const words = new Uint32Array(createRequire(import.meta.url)('../dist/forebay.node').mapPage(file));
  words[LAYOUT.format_offset / 4] = LAYOUT.format;
  const page = Page.open(String(file), '1', 1);
  for (const { job, offered, claimed, revoked } of LAYOUT.claim_words) {
    it(`of job ${job} are claimed once, and not when they are revoked`, () => {
      const slot = LAYOUT.slots - 1;
      const at = LAYOUT.claims_offset / 4 + slot;
      words[at] = offered;
      assert.deepEqual([page.claim(job, slot), words[at], page.claim(job, slot)], [true, claimed, false]);
      words[at] = revoked;
      assert.deepEqual([page.claim(job, slot), words[at]], [false, revoked]);
    });
  }
});

describe('a call that is longer than a frame', () => {
  it('is cut into frames that a reader puts together', () => {
    const text = 'é'.repeat(wire.FRAME_PAYLOAD_MAX + 7);
    const bytes = wire.callFrames(2, 7, 3, 9, text);
    const pieces = [];
    const ends = [];
    for (let at = 0; at < bytes.length; ) {
      const end = at + wire.HEADER_BYTES + wire.readU32(bytes, at);
      assert.deepEqual([bytes[at + 4], wire.readU32(bytes, at + 8), wire.readU32(bytes, at + 12), wire.readU32(bytes, at + 16)], [wire.CALL, 7, 3, 9]);
      ends.push(bytes[at + 5]);
      pieces.push(bytes.subarray(at + wire.HEADER_BYTES + wire.CALL_NUMBER_BYTES, end));
      at = end;
    }
    assert.deepEqual(ends, [0, 0, wire.END]);
    assert.ok(Buffer.concat(pieces).equals(Buffer.from(text)));
  });
});

describe('failures of databases that handlers let through', () => {
  for (const { error, problem, is_failure } of JSON.parse(readFileSync(join(folder, 'sql/problems.json'), 'utf8'))) {
    it(`answers ${error.code}: ${error.message}`, () => {
      const thrown = new SqlError(error.message, error);
      const { status, headers, body, failure } = errorReply(thrown, 'r');
      const { type, title, request_id, ...told } = JSON.parse(body);
      assert.deepEqual({ type, request_id, ...told }, { type: 'about:blank', request_id: 'r', ...problem });
      assert.equal(status, problem.status);
      assert.deepEqual(headers.slice(2), status === 503 ? ['retry-after', '1'] : []);
      assert.equal(failure?.error ?? null, is_failure ? thrown : null);
    });
  }
});
