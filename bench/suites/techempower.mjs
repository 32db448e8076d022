// Access to examples/techempower for the suites.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const EXAMPLE = fileURLToPath(new URL('../../examples/techempower', import.meta.url));

/**
 * The example's configuration for a database, with absolute paths of its files; with `blocking`, this many connections of the blocking
 * driver.
 */
export function sections({ url }, { blocking } = {}) {
  const text = readFileSync(`${EXAMPLE}/forebay.toml`, 'utf8')
    .replaceAll('${FOREBAY_PG_URL}', url)
    .replaceAll('"handlers/', `"${EXAMPLE}/handlers/`);
  return blocking === undefined ? text : text.replace('driver = "blocking"\n', `driver = "blocking"\nconnections_max = ${blocking}\n`);
}

/** An additional route on the same database: `/singly`, whose statements wait for one another, with the blocking driver. */
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

/** A pattern for a response with `count` rows. */
export const worlds = (count) => new RegExp(`^\\[(\\{"id":\\d+,"randomNumber":\\d+\\},?){${count}}\\]$`);
