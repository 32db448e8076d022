//! The page of fortunes.

use super::{Kind, answers::Answers};

/// Its rows in their order.
const ROWS: [(&str, &str); 13] = [
    (
        "11",
        "&lt;script&gt;alert(&quot;This should not be displayed in a browser alert box.&quot;);&lt;/script&gt;",
    ),
    (
        "4",
        "A bad random number generator: 1, 1, 1, 1, 1, 4.33e+67, 1, 1, 1",
    ),
    (
        "5",
        "A computer program does what you tell it to do, not what you want it to do.",
    ),
    (
        "2",
        "A computer scientist is someone who fixes things that aren&#39;t broken.",
    ),
    (
        "8",
        "A list is only as strong as its weakest link. — Donald Knuth",
    ),
    ("0", "Additional fortune added at request time."),
    ("3", "After enough decimal places, nobody gives a damn."),
    ("7", "Any program that runs right is obsolete."),
    ("10", "Computers make very fast, very accurate mistakes."),
    (
        "6",
        "Emacs is a nice operating system, but I prefer UNIX. — Tom Christaensen",
    ),
    ("9", "Feature: A bug with seniority."),
    ("1", "fortune: No such file or directory"),
    ("12", "フレームワークのベンチマーク"),
];

/// `/fortunes`.
pub(super) fn page(answers: &mut Answers) {
    let target = Kind::Fortunes.path();
    let Some(response) = answers.ask(target) else {
        return;
    };
    let rows = ROWS.map(|(id, message)| format!("<tr><td>{id}</td><td>{message}</td></tr>"));
    let right = format!(
        "<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table><tr><th>id</th><th>message</th></tr>{}\
         </table></body></html>",
        rows.concat()
    );
    let page = String::from_utf8_lossy(&response.body);
    if page != right {
        answers.problem(target, format!("the page is\n{page}\ninstead of\n{right}"));
    }
}
