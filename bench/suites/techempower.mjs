// What suites know of examples/techempower.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const EXAMPLE = fileURLToPath(new URL('../../examples/techempower', import.meta.url));

/** The example's configuration on a database, its files named by where they are; with `blocking`, so many connections of the driver that waits. */
export function sections({ url }, { blocking } = {}) {
  const text = readFileSync(`${EXAMPLE}/forebay.toml`, 'utf8')
    .replaceAll('${FOREBAY_PG_URL}', url)
    .replaceAll('"handlers/', `"${EXAMPLE}/handlers/`);
  return blocking === undefined ? text : text.replace('driver = "blocking"\n', `driver = "blocking"\nconnections_max = ${blocking}\n`);
}

/** A route more on the same database: `/singly`, whose statements wait for one another, by the driver that waits. */
export const SINGLY = `
[script.singly]
handler = "${fileURLToPath(new URL('../handlers/singly.mjs', import.meta.url))}"
time_max = "30s"
allow = { sql = ["blocking"] }

[[route]]
path = "/singly"
methods = ["GET"]
script = "singly"
`;

/** An answer of so many rows. */
export const worlds = (count) => new RegExp(`^\\[(\\{"id":\\d+,"randomNumber":\\d+\\},?){${count}}\\]$`);
