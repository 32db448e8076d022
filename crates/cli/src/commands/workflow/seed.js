// The part of MongoDB's shell that scripts with documents use. It collects the documents that are inserted.
const collections = Object.create(null);

const known = (methods, prefix, others) =>
  new Proxy(methods, {
    get(methods, name) {
      if (Object.hasOwn(methods, name)) return methods[name];
      if (others) return others(name);
      throw new Error(`${prefix}${String(name)} is unknown here; known: ${Object.keys(methods).join(', ')}`);
    },
  });

const collection = (name) => {
  const insert = (documents) => {
    const list = (collections[name] ??= []);
    for (const document of [documents].flat()) list.push(document);
  };
  const nothing = () => {};
  const drop = () => {
    collections[name] = [];
  };
  const methods = { drop, insert, insertOne: insert, insertMany: insert, createIndex: nothing, createIndexes: nothing };
  return known(methods, `db.${String(name)}.`);
};

const transactions = () =>
  known(
    { startTransaction() {}, commitTransaction() {}, abortTransaction() {}, endSession() {}, getDatabase: () => database },
    'session.',
  );

const database = known(
  {
    createCollection() {},
    getCollection: collection,
    getSiblingDB: () => database,
    getMongo: () => known({ startSession: transactions }, 'db.getMongo().'),
  },
  'db.',
  collection,
);

globalThis.db = database;
globalThis.print = () => {};
for (const [name, key] of [
  ['NumberLong', '$numberLong'],
  ['NumberInt', '$numberInt'],
  ['NumberDecimal', '$numberDecimal'],
  ['ObjectId', '$oid'],
  ['ISODate', '$date'],
]) {
  globalThis[name] = function (value) {
    return { [key]: String(value) };
  };
}
