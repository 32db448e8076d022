// Shared by the servers of the TechEmpower routes: which rows are requested, and the page.

export const WORLDS = 10_000;
const QUERIES_MAX = 500;

export const lot = () => 1 + Math.floor(Math.random() * WORLDS);
export const lots = (count) => Array.from({ length: count }, lot);

/** Distinct ids in ascending order, so that two updates lock rows in the same order. */
export function differentLots(count) {
  const ids = new Set();
  while (ids.size < count) ids.add(lot());
  return [...ids].sort((one, other) => one - other);
}

/** The number of rows requested by a parameter: from 1 to 500, and 1 if it is not an integer. */
export function asked(text) {
  const count = Number.parseInt(text, 10);
  return Number.isNaN(count) ? 1 : Math.min(Math.max(count, 1), QUERIES_MAX);
}

const ESCAPES = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
const SPECIAL = /[&<>"']/;
const SPECIALS = /[&<>"']/g;
const escaped = (text) => (SPECIAL.test(text) ? text.replace(SPECIALS, (character) => ESCAPES[character]) : text);

/** The page with all fortunes and an additional one. */
export function page(fortunes) {
  const all = [...fortunes, { id: 0, message: 'Additional fortune added at request time.' }];
  all.sort((one, other) => (one.message < other.message ? -1 : 1));
  let rows = '';
  for (const { id, message } of all) rows += `<tr><td>${id}</td><td>${escaped(message)}</td></tr>`;
  return `<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>${rows}</table></body></html>`;
}
