// The kinds of records, and the fields that a form shows of each. The page and the controller both read this file; a record may have other
// members, too, which the page shows as JSON. The first field is what a record is called by.
//
//   type      text, lines, number, boolean, date, time, choice (with `of`), record (with `kind`), json
//   required  whether a form insists on it
//   label     what the page calls it; made from its name when left out
//   list      whether the table has a column for it; lines and json have none when left out
export const kinds = {
{{kinds}}
};
