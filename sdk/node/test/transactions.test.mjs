// Concurrent use of the store: transactions, snapshots, indexes, locks, other threads and processes; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { HttpError, store as provided } from '../dist/index.js';
import { StoreError, open } from '../dist/store/index.js';
import { native } from '../dist/store/addon.js';
import { until } from './peer.mjs';
import { freshFolder, freshStore, refuses, run, start, withoutStore } from './stores.mjs';

/** Runs the garbage collector. */
const collect = (() => {
  if (process.versions.bun !== undefined) return () => Bun.gc(true);
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc');
})();

describe('transactions', () => {
  it('are all or nothing, and see their own writes', () => {
    const store = freshStore();
    const outcome = store.transaction((same) => {
      assert.equal(same, store);
      store.set('A', 1);
      assert.equal(store.get('A'), 1);
      return { done: true };
    });
    assert.deepEqual(outcome, { done: true });
    const mistake = new HttpError(409);
    assert.throws(() => store.transaction(() => {
      store.set('A', 2);
      store.node('B').increment();
      throw mistake;
    }), (error) => error === mistake);
    assert.deepEqual([store.get('A'), store.get('B')], [1, undefined]);
  });

  it('go on after what was only bad input', () => {
    const store = freshStore();
    store.transaction(() => {
      store.set('A', 1);
      refuses('key', () => store.set('A', 'x'.repeat(2000), 1));
      refuses('json', () => (store.node('A').json = '{'));
      store.set('A', 'b', 2);
    });
    assert.deepEqual([store.get('A'), store.get('A', 'b')], [1, 2]);
  });

  it('refuse promises, and roll back', async () => {
    const store = freshStore();
    refuses('async_transaction', () => store.transaction(async () => {
      store.set('A', 1);
      throw new Error('nobody sees this');
    }));
    refuses('async_transaction', () => store.transaction(() => ({ then() {} })));
    refuses('async_transaction', () => store.snapshot(async () => 1));
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(store.get('A'), undefined);
  });

  it('within each other are one', () => {
    const store = freshStore();
    store.transaction(() => {
      store.set('A', 1);
      store.transaction(() => store.set('B', store.get('A') + 1));
    });
    assert.equal(store.get('B'), 2);
    refuses('aborted', () => store.transaction(() => {
      store.set('A', 'lost');
      try {
        store.transaction(() => { throw new Error('inner'); });
      } catch {
        // The outer transaction continues as if nothing had happened, but is not committed.
      }
    }));
    assert.equal(store.get('A'), 1);
  });

  it('commit as durable as they are told to', () => {
    const store = freshStore({ durability: 'relaxed', flushInterval: 3_600_000 });
    for (const durability of ['relaxed', 'group', 'sync', undefined]) {
      store.transaction(() => store.set('A', String(durability)), { durability });
      assert.equal(store.get('A'), String(durability));
      const { flushedCommit, lastCommit } = store.stats();
      assert.equal(flushedCommit === lastCommit, durability === 'group' || durability === 'sync');
    }
    store.flush();
    assert.equal(store.stats().flushedCommit, store.stats().lastCommit);
    refuses('unsupported', () => store.transaction(() => 1, { durability: 'never' }), /sync, group or relaxed, not "never"/);
    refuses('unsupported', () => open(freshFolder(), { durability: 'toString' }));
  });

  it('keep increments of many processes apart', async (test) => {
    const folder = freshFolder();
    const store = open(folder, { durability: 'relaxed' });
    const source = `
      import { open } from './store/index.js';
      const store = open(${JSON.stringify(folder)}, { durability: 'relaxed' });
      for (let round = 0; round < 300; round++) {
        store.transaction(() => store.set('C', 'copy', store.node('C', 'n').increment()));
      }
      store.close();`;
    const children = [start(test, source), start(test, source)];
    for (let round = 0; round < 300; round++) store.node('C', 'n').increment();
    assert.deepEqual(await Promise.all(children.map((child) => child.exited)), [0, 0]);
    assert.equal(store.get('C', 'n'), 900);
    assert.ok(store.get('C', 'copy') <= 900);
  });
});

describe('snapshots', () => {
  it('show one state while others write, and reads outside of them the latest', () => {
    const folder = freshFolder();
    const store = open(folder, { durability: 'relaxed' });
    store.set('A', 1);
    const write = (value) => run(`import { open } from './store/index.js';\nopen(${JSON.stringify(folder)}).set('A', ${value});`);
    const seen = store.snapshot(() => {
      const before = store.get('A');
      write(2);
      return store.snapshot(() => [before, store.get('A'), ...store.node('A').values()]);
    });
    assert.deepEqual(seen, [1, 1]);
    assert.equal(store.get('A'), 2);
    write(3);
    assert.equal(store.get('A'), 3);
  });

  it('cannot be written in', () => {
    const store = freshStore();
    store.snapshot(() => {
      refuses('in_snapshot', () => store.set('A', 1));
      refuses('in_snapshot', () => store.transaction(() => 1));
      refuses('busy', () => store.close());
    });
    assert.throws(() => store.snapshot(() => { throw new Error('x'); }), /^Error: x$/);
    store.set('A', 1);
    assert.equal(store.transaction(() => store.snapshot(() => store.get('A'))), 1);
  });

  it('hold the space of their state while they last, and none when nobody reads', () => {
    const fileBytes = (reads) => {
      const store = freshStore({ durability: 'relaxed' });
      store.set('Big', 'x'.repeat(100_000));
      const write = () => run(`import { open } from './store/index.js';
        const store = open(${JSON.stringify(store.path)}, { durability: 'relaxed' });
        for (let round = 0; round < 700; round++) store.set('Big', String(round % 10).repeat(100_000));`);
      reads(store, write);
      assert.equal(store.get('Big'), '9'.repeat(100_000));
      return store.stats().fileBytes;
    };
    const held = fileBytes((store, write) => store.snapshot(() => (store.get('Big'), write())));
    const resting = fileBytes((store, write) => (store.get('Big'), write()));
    assert.ok(held > 64 << 20, `${held} bytes`);
    assert.ok(resting < 48 << 20, `${resting} bytes`);
  });
});

describe('indexes', () => {
  const store = freshStore();
  const people = store.node('Person', 'data');
  const keys = (query, index = 'by_city') => [...store.query(index, query)].map(({ key }) => key);
  people.document = {
    1: { name: 'Ada', city: 'London', born: 1815, tags: ['x', 'y'], address: { zip: 'W1' } },
    2: { name: 'Grace', city: 'New York', born: 1906, tags: ['y'] },
    3: { name: 'Alan', city: 'London', born: 1912, tags: [] },
    4: { name: 'Nobody', city: null, born: 0 },
    5: { name: 'No city' },
  };

  it('find records by values and ranges', () => {
    store.defineIndex({ name: 'by_city', records: people, fields: ['city', 'born'] });
    store.defineIndex({ name: 'by_city', records: people, fields: ['city', 'born'] });
    assert.deepEqual(keys(), ['4', '1', '3', '2']);
    assert.deepEqual(keys({ equal: 'London' }), ['1', '3']);
    assert.deepEqual(keys({ equal: ['London'], reverse: true }), ['3', '1']);
    assert.deepEqual(keys({ equal: ['London', 1912] }), ['3']);
    assert.deepEqual(keys({ equal: 'London', from: 1815, to: 1912 }), ['1', '3']);
    assert.deepEqual(keys({ equal: 'London', after: 1815 }), ['3']);
    assert.deepEqual(keys({ equal: 'London', before: 1912n }), ['1']);
    assert.deepEqual(keys({ equal: null }), ['4']);
    assert.deepEqual(keys({ from: null, to: null }), ['4']);
    assert.deepEqual(keys({ after: null, limit: 2 }), ['1', '3']);
    assert.deepEqual(keys({ equal: 'Paris' }), []);
    assert.deepEqual([...store.query('by_city', { equal: 'London' })].map((person) => person.get('name')), ['Ada', 'Alan']);
  });

  it('follow every write, and keep values unique that should be', () => {
    people.set(2, 'city', 'London');
    assert.deepEqual(keys({ equal: 'London' }), ['1', '2', '3']);
    assert.throws(() => store.transaction(() => {
      people.at(1).delete();
      assert.deepEqual(keys({ equal: 'London' }), ['2', '3']);
      throw new Error('no');
    }));
    assert.deepEqual(keys({ equal: 'London' }), ['1', '2', '3']);
    store.defineIndex({ name: 'names', records: people, fields: ['name'], unique: true });
    refuses('not_unique', () => people.set(9, { name: 'Ada' }));
    assert.equal(people.at(9).exists, false);
    store.defineIndex({ name: 'tags', records: people, fields: [['tags', '*']] });
    assert.deepEqual([keys({ equal: 'y' }, 'tags'), keys({}, 'tags')], [['1', '2'], ['1', '2']]);
    store.defineIndex({ name: 'zips', records: people, fields: [['address', 'zip']] });
    assert.deepEqual(keys({}, 'zips'), ['1']);
    assert.deepEqual(store.indexes().map(({ name, unique, fields, records }) => [name, unique, fields, String(records)])[1], ['names', true, [['name']], '^Person("data")']);
    assert.deepEqual([store.dropIndex('names'), store.dropIndex('names')], [true, false]);
  });

  it('give many records, page by page', () => {
    const many = store.node('Many');
    store.defineIndex({ name: 'many', records: many, fields: ['n'] });
    store.transaction(() => {
      for (let id = 0; id < 3000; id++) many.set(id, { n: id % 7 });
    });
    const found = keys({}, 'many');
    assert.deepEqual([found.length, new Set(found).size], [3000, 3000]);
    for (const limit of [255, 256, 257, 1280]) assert.deepEqual(keys({ limit }, 'many'), found.slice(0, limit));
  });

  it('go on behind what was found, whatever happens to it', () => {
    const many = store.node('Going');
    store.defineIndex({ name: 'going', records: many, fields: ['n'] });
    const fill = () => store.transaction(() => {
      for (let id = 0; id < 3000; id++) many.set(id, { n: id });
    });
    for (const reverse of [false, true]) {
      fill();
      let deleted = 0;
      for (const record of store.query('going', { reverse })) deleted += record.delete() ? 1 : 0;
      assert.deepEqual([deleted, many.exists], [3000, false]);
      fill();
      const seen = [];
      for (const { key } of store.query('going', { reverse, from: 0 })) {
        seen.push(key);
        many.set(`new-${seen.length}`, { n: reverse ? 5000 : -1 });
      }
      assert.deepEqual([seen.length, new Set(seen).size], [3000, 3000]);
      many.delete();
    }
  });

  it('come once with several values each, in pages that are bounded in bytes', () => {
    const tagged = store.node('Tagged');
    store.defineIndex({ name: 'tagged', records: tagged, fields: [['tags', '*']] });
    const name = (id) => `${id}-${'k'.repeat(1500)}`;
    store.transaction(() => {
      for (let id = 0; id < 1500; id++) tagged.set(name(id), { tags: [id, id + 700, id + 1400] });
    });
    for (const reverse of [false, true]) {
      const found = keys({ reverse }, 'tagged');
      assert.deepEqual([found.length, new Set(found).size, found[0]], [1500, 1500, name(reverse ? 1499 : 0)]);
      assert.deepEqual(keys({ reverse, limit: 1001 }, 'tagged'), found.slice(0, 1001));
    }
  });

  it('are of the node that a number names', () => {
    for (const number of [0.5, -0.25, 1e-7, 1.5e21, -2.5e-10, 10, -0]) {
      const records = store.node('Halves', number);
      store.defineIndex({ name: 'halves', records, fields: ['n'] });
      records.set('record', { n: 1 });
      assert.deepEqual([...store.query('halves')].map(({ path }) => path), [['Halves', records.key, 'record']]);
      assert.deepEqual([...store.node('Halves').keys()], [records.key]);
      assert.deepEqual(store.node('Halves', records.key).get(), records.get());
      store.node('Halves').delete();
      store.dropIndex('halves');
    }
    refuses('key', () => store.defineIndex({ name: 'halves', records: store.node('Halves', NaN), fields: ['n'] }), /NaN/);
  });

  it('refuse what they cannot answer', () => {
    refuses('index', () => keys({}, 'nothing'), /no such index/);
    refuses('index', () => keys({ equal: ['a', 1, 2] }), /2 fields/);
    refuses('index', () => keys({ equal: [{}] }), /scalars/);
    refuses('index', () => keys({ equal: NaN }), /NaN/);
    refuses('index', () => keys({ from: 1, after: 2 }), /not both/);
    refuses('index', () => keys({ to: 1, before: 2 }), /not both/);
    refuses('index', () => store.defineIndex({ name: '', records: people, fields: ['x'] }));
    refuses('index', () => store.defineIndex({ name: 'x', records: people, fields: [] }));
  });
});

describe('nodes that end by themselves', () => {
  it('are told when, and are gone then', async () => {
    const store = freshStore();
    const node = store.node('Session', 'x');
    assert.equal(node.expire(new Date()), false);
    node.set({ user: 1 });
    assert.equal(node.expires, undefined);
    const at = new Date(Date.now() + 3_600_000);
    assert.equal(node.expire(at), true);
    assert.deepEqual(node.expires, at);
    assert.equal(node.expire(undefined), true);
    assert.equal(node.expires, undefined);
    refuses('unsupported', () => node.expire(new Date('never')));
    node.expire(Date.now() - 1);
    await until(() => !node.exists);
    assert.equal(node.get(), undefined);
  });
});

describe('merge patches', () => {
  it('remove what is null and go into objects', () => {
    const node = freshStore().node('Patched');
    node.set({ a: 1, b: { c: 2, d: 3 }, e: [1, 2] });
    node.patch({ a: null, b: { c: null, f: 4 }, e: [3], g: { h: null } });
    assert.deepEqual(node.document, { b: { d: 3, f: 4 }, e: [3], g: {} });
    refuses('not_json', () => node.patch({ a: NaN }));
  });
});

describe('locks', () => {
  it('keep others waiting, and end with their owner', async (test) => {
    const folder = freshFolder();
    const store = open(folder);
    const holder = start(test, `
      import { open } from './store/index.js';
      const store = open(${JSON.stringify(folder)});
      console.log(store.node('L', 1).lock());
      process.stdin.on('data', () => {});`);
    assert.equal(await holder.line(), 'true');
    assert.equal(store.node('L', 1).lock(0), false);
    assert.equal(store.node('L', 1, 'below').lock(20), false);
    assert.equal(store.node('L', 2).lock(0), true);
    assert.equal(store.node('L', 1).unlock(), false);
    holder.kill('SIGKILL');
    assert.equal(store.node('L', 1).lock(), true);
    assert.equal(store.node('L', 1).lock(0), true);
    assert.equal(store.node('L', 1).unlock(), true);
    store.unlockAll();
    assert.equal(store.node('L', 1).unlock(), false);
    refuses('unsupported', () => store.node('L').lock('x'));
    await holder.exited;
  });
});

describe('a store', () => {
  it('opened twice is the same one', () => {
    const folder = freshFolder();
    const store = open(folder);
    assert.equal(open(`${folder}/../${folder.split('/').at(-1)}`), store);
    store.close();
    store.set('A', 1);
    store.close();
    refuses('closed', () => store.get('A'));
    refuses('closed', () => store.set('A', 2));
    refuses('closed', () => [...store.node('A')]);
    assert.equal(open(folder).get('A'), 1);
    refuses('file', () => open(''));
    refuses('file', () => open('/proc/nothing'), /cannot make the folder \/proc\/nothing: /);
  });

  it('is not opened with other options while it is open', async () => {
    const folder = freshFolder();
    const store = open(folder, { durability: 'sync', valueBytesMax: 1000 });
    assert.equal(open(folder), store);
    assert.equal(open(folder, { durability: 'sync', valueBytesMax: 1000, create: false }), store);
    refuses('open_already', () => open(folder, { durability: 'relaxed' }), /with durability sync, not relaxed$/);
    refuses('open_already', () => open(folder, { valueBytesMax: 2000 }), /value_bytes_max 1000, not 2000$/);
    refuses('open_already', () => open(folder, { readerAgeMax: 5 }), /reader_age_max 60s, not 5ms$/);
    refuses('open_already', () => open(folder, { readOnly: true }), /read_only false, not true$/);
    const other = new Worker(
      `import(${JSON.stringify(new URL('../dist/store/index.js', import.meta.url).href)}).then(({ open }) => {
        const outcome = (options) => { try { open(${JSON.stringify(folder)}, options); } catch ({ code }) { return code; } };
        require('node:worker_threads').parentPort.postMessage([outcome(), outcome({ durability: 'relaxed' })]);
      });`,
      { eval: true },
    );
    assert.deepEqual(await new Promise((resolve) => other.once('message', resolve)), [undefined, 'open_already']);
    await other.terminate();
    for (let times = 0; times < 3; times++) store.close();
    open(folder, { durability: 'relaxed' }).close();
  });

  it('of the server is led by nobody else, by whatever path it is opened, and has one count of who uses it', () => {
    const folder = freshFolder();
    // Expired nodes are removed by whoever leads the store. There is no leader here, to test whether the program does it.
    open(folder).close();
    const [above, name] = [folder.slice(0, folder.lastIndexOf('/')), folder.slice(folder.lastIndexOf('/') + 1)];
    const printed = run(
      `import { symlinkSync } from 'node:fs';
      import { store } from './index.js';
      import { open } from './store/index.js';
      process.chdir(${JSON.stringify(above)});
      symlinkSync('${name}', '${name}-link');
      const outcome = (action) => { try { return action(); } catch ({ code }) { return code; } };
      const own = open('./${name}');
      own.node('A').set(1);
      const due = own.node('Due');
      due.set(1);
      due.expire(Date.now() - 1);
      const until = Date.now() + 2000;
      while (Date.now() < until && due.exists);
      const followed = due.exists;
      const same = [open('${name}-link') === own, open(${JSON.stringify(folder)}) === own, store.path === own.path];
      store.close();
      own.close();
      const left = own.get('A');
      store.close();
      const still = own.get('A');
      own.close();
      console.log(JSON.stringify([followed, same, left, still, outcome(() => own.get('A')), outcome(() => open('${name}').get('A'))]));`,
      { FOREBAY_STORE: folder },
    );
    assert.deepEqual(JSON.parse(printed), [true, [true, true, true], 1, 1, 'closed', 1]);
  });

  it('of the server that joins one opened before leaves it open', () => {
    const folder = freshFolder();
    const printed = run(`
      import { store } from './index.js';
      import { open } from './store/index.js';
      const own = open(${JSON.stringify(folder)});
      process.env.FOREBAY_STORE = own.path;
      store.set('A', 1);
      store.close();
      console.log(own.get('A'));`);
    assert.equal(printed, '1\n');
  });

  it('of the server has the limits that its configuration settles', () => {
    const folder = freshFolder();
    open(folder).close();
    const source = `
      import { store } from './index.js';
      import { open } from './store/index.js';
      const outcome = (action) => { try { return action(); } catch ({ code }) { return code; } };
      const long = 'x'.repeat(2000);
      store.set('A', 1);
      const aged = outcome(() => store.snapshot(() => {
        const until = Date.now() + 100;
        while (Date.now() < until);
        return store.get('A');
      }));
      console.log(JSON.stringify([...['sync', 'group', 'relaxed'].filter((durability) => outcome(() => open('${folder}', { durability })) === store), aged, outcome(() => store.set('A', long))]));`;
    const under = (env) => JSON.parse(run(source, { FOREBAY_STORE: folder, ...env }));
    const limits = { FOREBAY_STORE_VALUE_BYTES_MAX: '1000', FOREBAY_STORE_READER_AGE_MAX_MS: '50' };
    assert.deepEqual(under({}), ['group', 1, null]);
    assert.deepEqual(under({ FOREBAY_STORE_DURABILITY: 'sync' }), ['sync', 1, null]);
    assert.deepEqual(under({ FOREBAY_STORE_DURABILITY: 'relaxed', ...limits }), ['relaxed', 'snapshot_too_old', 'value_too_long']);
  });

  it('of the server that the program has closed is opened again as the server has settled it', () => {
    const folder = freshFolder();
    open(folder).close();
    const printed = run(
      `import { store } from './index.js';
      import { open } from './store/index.js';
      const outcome = (action) => { try { return action(); } catch ({ code }) { return code; } };
      store.set('A', 1);
      store.close();
      const closed = outcome(() => store.get('A'));
      const relaxed = outcome(() => open('${folder}', { durability: 'relaxed' }));
      const own = open('${folder}', { durability: 'sync' });
      console.log(JSON.stringify([closed, relaxed, own === store, store.get('A'), outcome(() => own.set('A', 'x'.repeat(2000)))]));`,
      { FOREBAY_STORE: folder, FOREBAY_STORE_DURABILITY: 'sync', FOREBAY_STORE_VALUE_BYTES_MAX: '1000' },
    );
    assert.deepEqual(JSON.parse(printed), ['closed', 'open_already', true, 1, 'value_too_long']);
  });

  it('takes no memory for openings that are closed', async () => {
    const folder = freshFolder();
    const store = open(folder);
    const cycle = () => {
      for (let times = 0; times < 5000; times++) native().openStore(StoreError, folder, 0, 0, 0, 0, 0, 0, -1, 0, 0).close();
    };
    const settled = async () => {
      for (let times = 0; times < 5; times++) {
        collect();
        // Finalizers run in the following turns of the event loop.
        await new Promise((resolve) => setImmediate(resolve));
      }
      return process.memoryUsage.rss();
    };
    // The first ones grow what the engine keeps for itself.
    for (let times = 0; times < 2; times++) {
      cycle();
      await settled();
    }
    // Objects that are kept alive would take more than 2 KB each, 20 MB in every round; what else the engine keeps it takes in some of them.
    const grown = [];
    while (grown.length < 4 && !grown.some((bytes) => bytes < 15 << 20)) {
      const before = await settled();
      for (let times = 0; times < 2; times++) {
        cycle();
        await settled();
      }
      grown.push((await settled()) - before);
    }
    assert.ok(Math.min(...grown) < 15 << 20, `${grown} bytes more`);
    store.set('A', 1);
    assert.equal(store.get('A'), 1);
  });

  it('is provided by the server, to be used without being opened', () => {
    const folder = freshFolder();
    open(folder).set('A', 'b', 1);
    const source = `
      import { store, StoreError } from './index.js';
      import { open } from './store/index.js';
      const outcome = (action) => { try { return action(); } catch (error) { return error instanceof StoreError ? error.code : String(error); } };
      console.log(JSON.stringify([outcome(() => store.get('A', 'b')), outcome(() => store.set('A', 'c', 2)), outcome(() => open(process.env.FOREBAY_STORE) === store)]));`;
    const under = (env) => JSON.parse(run(source, env));
    assert.deepEqual(under({ FOREBAY_STORE: folder }), [1, null, true]);
    assert.deepEqual(under({ FOREBAY_STORE: folder, FOREBAY_STORE_MODE: 'rw' }), [1, null, true]);
    assert.deepEqual(under({ FOREBAY_STORE: folder, FOREBAY_STORE_MODE: 'ro' }), [1, 'read_only', 'open_already']);
    assert.deepEqual(under({ FOREBAY_STORE: folder, FOREBAY_STORE_MODE: 'none' }).slice(0, 2), ['no_store', 'no_store']);
    assert.deepEqual(under({ FOREBAY_STORE: `${folder}-nowhere` }).slice(0, 2), ['absent', 'absent']);
    withoutStore(() => refuses('no_store', () => provided.get('A'), /given no store/));
  });

  it('frees what a thread leaves behind that ends in a transaction', async () => {
    const folder = freshFolder();
    const store = open(folder);
    const source = `
      const { open } = await import(${JSON.stringify(new URL('../dist/store/index.js', import.meta.url).href)});
      const store = open(${JSON.stringify(folder)});
      store.transaction(() => { store.set('A', 'half'); require('node:worker_threads').parentPort.postMessage(1); for (;;); });`;
    const worker = new Worker(`(async () => { ${source} })()`, { eval: true });
    await new Promise((resolve) => worker.once('message', resolve));
    await worker.terminate();
    store.set('B', 1);
    assert.deepEqual([store.get('A'), store.get('B')], [undefined, 1]);
  });

  it('survives a process that is killed in the middle of a transaction', async (test) => {
    const folder = freshFolder();
    const store = open(folder);
    const child = start(test, `
      import { open } from './store/index.js';
      const store = open(${JSON.stringify(folder)});
      store.set('A', 'whole');
      store.transaction(() => { store.set('A', 'half'); process.stdout.write('now\\n'); for (;;); });`);
    assert.equal(await child.line(), 'now');
    child.kill('SIGKILL');
    await child.exited;
    store.set('B', 1);
    assert.deepEqual([store.get('A'), store.get('B')], ['whole', 1]);
  });
});
