// The worker program against a scripted server, under Node and Bun.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { END, Peer, RUNTIMES, TYPES, requestPayload, until } from './peer.mjs';

const KINDS = fileURLToPath(new URL('handlers/kinds.mjs', import.meta.url));

for (const runtime of RUNTIMES) {
  describe(`a ${runtime} worker`, () => {
    const peer = new Peer();
    before(() => peer.start({ runtime, handler: KINDS }));
    after(() => peer.end());

    it('introduces itself', () => {
      assert.equal(peer.hello.protocol, 1);
      assert.match(peer.hello.sdk, /^forebay-node\/\d/);
      assert.match(peer.hello.runtime, new RegExp(`^${runtime}/\\d`));
      assert.equal(peer.hello.pid, peer.child.pid);
      assert.equal(peer.hello.page, true);
    });

    for (const [path, status, type, text] of [
      ['/object', 200, 'application/json', '{"hello":"world"}'],
      ['/array', 200, 'application/json', '[1,2]'],
      ['/number', 200, 'application/json', '7'],
      ['/string', 200, 'text/plain; charset=utf-8', 'grüße ✓'],
      ['/bytes', 200, 'application/octet-stream', Buffer.from([0, 1, 254, 255])],
      ['/nothing', 204, '', ''],
      ['/null', 204, '', ''],
      ['/json', 201, 'application/json', '"a string"'],
      ['/text', 200, 'text/html', '<p>'],
      ['/reply', 206, 'image/png', Buffer.from([1, 2])],
      ['/response', 203, 'text/css', 'p {}'],
      ['/web-stream', 200, 'application/octet-stream', 'streamed'],
      ['/node-stream', 200, 'application/octet-stream', 'abc'],
      ['/generator', 200, 'application/octet-stream', 'one two'],
      ['/async', 200, 'application/json', '{"async":true}'],
      ['/thenable', 200, 'text/plain; charset=utf-8', 'from a thenable'],
    ]) {
      it(`answers with what ${path} returns`, async () => {
        const answer = await peer.fetch({ path });
        assert.equal(answer.status, status);
        assert.equal(answer.header('content-type'), type);
        assert.deepEqual(answer.body, Buffer.from(text));
        assert.equal(answer.fault, false);
      });
    }

    it('sends the headers of replies and responses, repeated ones repeatedly', async () => {
      const reply = await peer.fetch({ path: '/json' });
      assert.deepEqual(reply.headers, [['content-type', 'application/json'], ['x-a', '1'], ['x-a', '2'], ['location', '/x']]);
      const response = await peer.fetch({ path: '/response' });
      assert.equal(response.header('set-cookie'), 'a=1, b=2');
    });

    it('tells how long the handler ran', async () => {
      const { micros } = await peer.fetch({ path: '/async' });
      assert.ok(micros >= 1900 && micros < 5_000_000, `${micros}`);
    });

    it('gives the handler all of the request', async () => {
      const sent = Date.now();
      const answer = await peer.fetch({
        method: 'PROPFIND',
        path: '/inspect/J%C3%BCrgen/a/b%20c',
        query: 'tag=x&tag=y%20z&empty=',
        route: '/inspect/*',
        headers: [['user-agent', 'peer'], ['accept', 'a'], ['accept', 'b'], ['cookie', 'sid="1%202"; bad=%zz; sid=2'], ['x-raw', 'caf\u00e9']],
        peer: '::1',
        left: 5000,
      });
      const { headers, deadline, remaining, worker, ...rest } = answer.json();
      assert.deepEqual(rest, {
        method: 'PROPFIND',
        url: 'http://example.org/inspect/J%C3%BCrgen/a/b%20c?tag=x&tag=y%20z&empty=',
        path: '/inspect/J%C3%BCrgen/a/b%20c',
        route: '/inspect/*',
        params: { id: 'Jürgen', rest: 'a/b c' },
        tags: ['x', 'y z'],
        query: 'tag=x&tag=y+z&empty=',
        agent: 'peer',
        accept: 'a, b',
        cookies: { sid: '1 2', bad: '%zz' },
        ip: '::1',
        id: 'req-1',
      });
      assert.deepEqual(headers.slice(1), [['user-agent', 'peer'], ['accept', 'a'], ['accept', 'b'], ['cookie', 'sid="1%202"; bad=%zz; sid=2'], ['x-raw', 'caf\u00e9']]);
      assert.deepEqual(worker, { id: 3, pool: 'api', pid: peer.child.pid });
      assert.ok(Math.abs(deadline - (sent + 5000)) < 1000, `${deadline - sent}`);
      assert.ok(remaining > 3000 && remaining <= 5000, `${remaining}`);
    });

    it('says in the URL whether the client speaks TLS', async () => {
      for (const [tls, url] of [[false, 'http://example.org/inspect/a/b'], [true, 'https://example.org/inspect/a/b']]) {
        assert.equal((await peer.fetch({ path: '/inspect/a/b', tls })).json().url, url);
      }
    });

    it('leaves every byte of a body as it is, both ways', async () => {
      const body = Buffer.from(Array.from({ length: 256 * 100 }, (_, index) => (index * 7) % 256));
      const headers = [['content-type', 'x/y']];
      const answer = await peer.fetch({ method: 'POST', path: '/echo', body, headers });
      assert.equal(answer.header('content-type'), 'x/y');
      assert.deepEqual(answer.body, body);
    });

    it('leaves every character of text as it is', async () => {
      let text = '';
      for (let point = 0; point < 0x11_0000; point += 61) if (point < 0xd800 || point > 0xdfff) text += String.fromCodePoint(point);
      const answer = await peer.fetch({ method: 'POST', path: '/text', body: text });
      assert.equal(answer.text, text);
      const parsed = await peer.fetch({ method: 'POST', path: '/json', body: JSON.stringify(text) });
      assert.equal(parsed.json().got, text);
    });

    it('reads urlencoded and multipart forms', async () => {
      const urlencoded = await peer.fetch({
        method: 'POST', path: '/form', body: 'a=1&a=%C3%BC&b=',
        headers: [['content-type', 'application/x-www-form-urlencoded; charset=utf-8']],
      });
      assert.deepEqual(urlencoded.json(), { fields: [['a', '1'], ['a', 'ü'], ['b', '']], files: [] });
      const form = new FormData();
      form.append('a', 'ü\r\n--x');
      form.append('f', new Blob([new Uint8Array([0, 255, 13, 10])], { type: 'image/png' }), 'n"ö.png');
      const web = new Response(form);
      const multipart = await peer.fetch({
        method: 'POST', path: '/form', body: Buffer.from(await web.arrayBuffer()),
        headers: [['content-type', web.headers.get('content-type')]],
      });
      assert.deepEqual(multipart.json(), { fields: [['a', 'ü\r\n--x']], files: [['f', 'n"ö.png', 'image/png', '00ff0d0a']] });
    });

    for (const [what, request, status, detail] of [
      ['a body that is not JSON', { path: '/json', body: '{' }, 400, /the body is not JSON/],
      ['a form of another type', { path: '/form', body: 'x' }, 415, /of no content type/],
      ['a multipart body that ends early', { path: '/form', body: '--b\r\n', headers: [['content-type', 'multipart/form-data; boundary=b']] }, 400, /malformed/],
      ['a path without a handler', { path: '/nowhere' }, 404, /nothing answers \/nowhere/],
      ['a method without a handler', { path: '/object' }, 405, /answers GET, HEAD, not POST/],
    ]) {
      it(`answers ${what} with ${status}`, async () => {
        const answer = await peer.fetch({ method: 'POST', ...request });
        assert.equal(answer.status, status);
        assert.equal(answer.header('content-type'), 'application/problem+json');
        assert.match(answer.json().detail, detail);
        assert.equal(answer.json().request_id, 'req-1');
        if (status === 405) assert.equal(answer.header('allow'), 'GET, HEAD');
      });
    }

    for (const path of [
      '/throws', '/rejects', '/throws-nothing', '/bigint', '/cycle', '/bad-header', '/bad-piece', '/bad-extra',
      '/read-response', '/locked-response', '/locked-stream', '/no-iterator', '/throwing-then', '/thenable-throws',
    ]) {
      it(`answers ${path} with 500 and tells the client nothing of the cause, then serves on`, async () => {
        const answer = await peer.fetch({ path });
        assert.equal(answer.status, 500);
        assert.equal(answer.fault, true);
        assert.deepEqual(answer.json(), {
          type: 'about:blank', title: 'Internal Server Error', status: 500, detail: 'the handler failed', request_id: 'req-1',
        });
        await until(() => peer.stderr.includes(`GET ${path} failed (request req-1)`));
        assert.equal((await peer.fetch({ path: '/object' })).status, 200);
      });
    }

    it('answers a handler of mg_web that fails as mg_web does, and reports it like any other', async () => {
      const answer = await peer.fetch({ path: '/mgweb/throws' });
      assert.deepEqual([answer.status, answer.json(), answer.fault], [500, { error: 'Error Running Handler' }, true]);
      await until(() => /GET \/mgweb\/throws failed \(request req-1\): Error: a secret of mg_web\n +at /.test(peer.stderr));
    });

    it('answers an HttpError with its status, headers and members', async () => {
      const answer = await peer.fetch({ path: '/http-error' });
      assert.equal(answer.status, 409);
      assert.equal(answer.fault, false);
      assert.equal(answer.header('retry-after'), '3');
      assert.equal(answer.json().detail, 'taken');
      assert.equal(answer.json().field, 'email');
    });

    it('resets a stream that fails after its head was sent', async () => {
      const answer = await peer.fetch({ path: '/breaks-off' });
      assert.equal(answer.status, 200);
      assert.equal(answer.reset, true);
      assert.equal(answer.body.length, 100_000);
      await until(() => peer.stderr.includes('broke off'));
    });

    it('refuses to read a body twice', async () => {
      const answer = await peer.fetch({ method: 'POST', path: '/twice', body: 'x' });
      assert.equal(answer.status, 500);
      await until(() => peer.stderr.includes('has been read already'));
    });

    it('answers HEAD by GET, without producing a stream', async () => {
      assert.equal((await peer.fetch({ method: 'HEAD', path: '/object' })).status, 200);
      const stream = await peer.fetch({ method: 'HEAD', path: '/generator' });
      assert.equal(stream.status, 200);
      assert.equal(stream.body.length, 0);
    });

    for (const bytes of [0, 1, 1000, 32_739, 32_740, 32_741, 100_000, 1_048_564, 1_048_565, 3_000_000]) {
      it(`sends a body of ${bytes} bytes`, async () => {
        const job = peer.request({ path: `/size/${bytes}` });
        const granting = setInterval(() => peer.send(TYPES.WINDOW, 0, job.number, job.slot, Buffer.from([0, 0, 4, 0])), 1);
        const answer = await job.answer;
        clearInterval(granting);
        assert.equal(answer.status, 200);
        assert.equal(answer.body.length, bytes);
        assert.ok(answer.body.every((byte) => byte === 0x78));
        if (bytes > 1_048_564) assert.equal(answer.header('content-length'), String(bytes));
      });
    }

    it('uses the outbox for what fits and the link for the rest', async () => {
      const [outbox, link] = [peer.outboxFrames, peer.linkFrames];
      await peer.fetch({ path: '/size/32740' });
      assert.deepEqual([peer.outboxFrames - outbox, peer.linkFrames - link], [1, 0]);
      await peer.fetch({ path: '/size/32741' });
      assert.deepEqual([peer.outboxFrames - outbox, peer.linkFrames - link], [1, 1]);
    });

    it('fills the outbox many times around, with answers of all lengths, and mixes none up', async () => {
      const answers = [];
      for (let index = 0; index < 2000; index++) {
        answers.push(peer.fetch({ method: 'POST', path: '/text', body: `${index}:`.padEnd((index * 97) % 3000, '·') }));
      }
      for (const [index, answer] of (await Promise.all(answers)).entries()) {
        assert.equal(answer.text, `${index}:`.padEnd((index * 97) % 3000, '·'));
      }
    });

    it('reads frames up to the longest the protocol allows', async () => {
      const envelope = requestPayload({ method: 'POST', path: '/echo' }).length;
      const bodies = [100_000, 262_144, 1_048_576 - envelope, 5].map((size, index) => Buffer.alloc(size, index + 1));
      const answers = bodies.map((body) => peer.fetch({ method: 'POST', path: '/echo', body }));
      for (const [index, answer] of answers.entries()) assert.ok((await answer).body.equals(bodies[index]), `body ${index}`);
    });

    it('ends when a frame is longer than the protocol allows', async (test) => {
      const other = await Peer.start(test, { runtime, handler: KINDS });
      const header = Buffer.alloc(16);
      header.writeUInt32LE(1_048_577);
      other.link.write(header);
      assert.equal((await other.exited).code, 1);
      assert.match(other.stderr, /sent a frame of 1048577 bytes/);
    });

    it('reads a frame that arrives byte by byte', async () => {
      peer.link.setNoDelay?.(true);
      const job = peer.request({ method: 'POST', path: '/echo', body: 'in pieces' }, { split: true });
      assert.equal((await job.answer).text, 'in pieces');
    });

    it('skips frames of unknown types, of other generations and of jobs it does not know', async () => {
      peer.send(0x7f, 0xff, 0, 0, Buffer.from('later'));
      peer.send(TYPES.ABORT, 0, 99, 99, Buffer.from([1]));
      peer.send(TYPES.WINDOW, 0, 99, 99, Buffer.alloc(4));
      peer.generation++;
      peer.send(TYPES.DRAIN, 0, 0, 0);
      peer.generation--;
      assert.equal((await peer.fetch({ path: '/object' })).status, 200);
    });

    it('does not run a job that was taken back', async () => {
      const job = peer.request({ path: '/throws' }, { revoked: true });
      assert.equal((await peer.fetch({ path: '/object' })).status, 200);
      assert.equal(job.head, undefined);
    });

    it('does not run a job whose slot is offered for another one', async () => {
      const job = peer.request({ path: '/throws' }, { slot: 5, offer: false });
      const next = peer.request({ path: '/string' }, { slot: 5 });
      assert.equal((await next.answer).text, 'grüße ✓');
      assert.equal(job.head, undefined);
    });

    it('keeps what handlers print away from the link', async () => {
      assert.equal((await peer.fetch({ path: '/noise' })).text, 'quiet');
      await until(() => peer.stdout.includes('{"not":"a frame"}') && peer.stderr.includes('on standard error'));
    });

    it('sends log lines with their job', async () => {
      const job = peer.request({ path: '/log' });
      await job.answer;
      await until(() => peer.logs.some(({ message }) => message === 'three'));
      const lines = peer.logs.filter((line) => line.job === job.number);
      assert.deepEqual(lines.map(({ level, message }) => [level, message]), [['debug', 'one'], ['warn', 'two'], ['error', 'three']]);
      assert.deepEqual(lines[1].fields, { n: 2 });
      assert.match(lines[2].fields.fields_dropped, /BigInt/);
    });

    it('fetches a long body as the handler reads it', async () => {
      const job = peer.request({ method: 'POST', path: '/count', body: 'x'.repeat(1000) }, { end: false });
      let left = 2_000_000;
      let allowed = 0;
      while (left > 0) {
        if (allowed === 0) {
          const grant = await peer.expect(TYPES.WINDOW, (frame) => frame.job === job.number);
          allowed += grant.payload.readUInt32LE(0);
        }
        const size = Math.min(left, allowed, 50_000);
        left -= size;
        allowed -= size;
        peer.send(TYPES.BODY, left === 0 ? END : 0, job.number, job.slot, Buffer.alloc(size, 1));
      }
      assert.deepEqual((await job.answer).json(), { bytes: 2_001_000 });
    });

    it('never asks for a body that the handler does not read', async () => {
      const job = peer.request({ method: 'POST', path: '/unread' }, { end: false });
      assert.equal((await job.answer).text, 'not read');
      await peer.fetch({ path: '/object' });
      assert.equal(peer.seen(TYPES.WINDOW, (frame) => frame.job === job.number), false);
    });
  });
}
