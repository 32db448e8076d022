//! Workers on other machines, and a store in a database that they share with the front ends.

use forebay_testkit::{Setup, postgres::Schema, wait_until};
use serde_json::json;

use super::Nats;
use crate::store::{database::PYTHON, put};

const NODE: &str = "
import { store } from 'forebay';
import { records, tql } from 'forebay/records';

export default () => {
  const count = store.transaction(() => store.node('Open', 'count').increment());
  const ref = records.create({ kind: 'Note', by: 'node' });
  const found = tql({ where: ['EQ', 'kind', \"'Note\"], select: 'by' }).results;
  return { count, ref, found, read: store.get('Open', 'doc') };
};
";

const READER: &str = "
import { store } from 'forebay';

export default () => {
  try {
    store.set('Open', 'count', 0);
  } catch (error) {
    return { refused: error.code, count: store.get('Open', 'count'), mode: process.env.FOREBAY_STORE_MODE };
  }
};
";

const NONE: &str = "export default () => ({ told: process.env.FOREBAY_STORE ?? null });";

#[test]
fn workers_on_hosts_and_front_ends_read_what_the_others_write() {
    let schema = Schema::new();
    let nats = Nats::start();
    let pools = [
        ("node", "node.mjs", NODE, ""),
        ("py", "py.py", PYTHON, ""),
        ("reader", "reader.mjs", READER, "store = \"ro\""),
        ("none", "none.mjs", NONE, "store = \"none\""),
    ];
    let sections = pools.map(|(name, file, _, keys)| {
        format!(
            "[pool.{name}]\nat = \"cluster\"\nhandler = \"{file}\"\n{keys}\n[[route]]\npath = \"/{name}\"\npool = \"{name}\"\n"
        )
    });
    let config = format!(
        "[cluster]\nnats = \"{}\"\n[store]\nurl = \"{}\"\n\
         [store.access]\nOpen = {{ read = \"public\", write = \"public\" }}\nNote = {{ read = \"public\" }}\n\
         [[route]]\npath = \"/store/*\"\nstore = {{}}\n{}",
        nats.url(),
        schema.url(),
        sections.concat()
    );
    let setup = || {
        let setup = Setup::new(&config).admin();
        pools
            .iter()
            .fold(setup, |setup, (_, file, text, _)| setup.file(file, text))
    };
    let front = setup().start();
    let _hosts = pools.map(|(name, ..)| setup().work_on(name).start());
    wait_until("every pool has a host", || {
        front.admin().get("/health/ready").status == 200
    });
    let mut client = front.connect();
    put(&mut client, "/store/Open/doc", "{\"a\":[1,2]}");
    for count in [1, 3, 5] {
        let answer = front.get("/node").json();
        assert_eq!(answer["count"], count, "{answer}");
        assert_eq!(answer["read"], json!({"a": [1, 2]}), "{answer}");
        let notes = answer["found"].as_array().map_or(0, Vec::len);
        assert_eq!(notes, usize::midpoint(count, 1), "{answer}");
        let note = front.get(&format!("/store/Note/{}", answer["ref"]));
        assert_eq!(note.json()["by"], "node", "{note:?}");
        assert_eq!(front.get("/store/Open/count").text(), count.to_string());
        let answer = front.get("/py").json();
        assert_eq!(answer["count"], count + 1, "{answer}");
        assert_eq!(answer["read"], json!({"a": [1, 2]}), "{answer}");
        assert_eq!(front.get("/store/Open/count").text(), (count + 1).to_string());
    }
    let reader = front.get("/reader").json();
    assert_eq!(reader, json!({"refused": "read_only", "count": 6, "mode": "ro"}));
    assert_eq!(front.get("/none").json(), json!({"told": null}));
}
