//! Flame graphs on pages for a browser: rows of boxes below each other.

use std::fmt::Write as _;

use forebay_load::report::html::escape;

/// How they look, and the colours that boxes may have.
pub(super) const STYLE: &str = include_str!("flame_graph.css");
/// Colours for what has none of its own.
pub(super) const COLOURS: [&str; 8] = [
    "green", "blue", "orange", "teal", "purple", "pink", "gold", "grey",
];

/// A box of a row. Where it begins and how wide it is are parts of the row; `told` is what a pointer over it is told, `text` what stands in it.
pub(super) fn put_box(row: &mut String, class: &str, from: f64, width: f64, told: &str, text: &str) {
    // A String takes everything.
    let _ = write!(
        row,
        "<span class=\"box {class}\" style=\"left:{:.3}%;width:{:.3}%\" title=\"{}\">{}</span>",
        from * 100.0,
        width * 100.0,
        escape(told),
        escape(text)
    );
}

/// A graph of such rows, with what stands above it.
pub(super) fn figure(caption: &str, rows: &[String]) -> String {
    let mut html = String::from("<figure class=\"flame\">");
    if !caption.is_empty() {
        // A String takes everything.
        let _ = write!(html, "<figcaption><span>{}</span></figcaption>", escape(caption));
    }
    html.push('\n');
    for row in rows {
        // A String takes everything.
        let _ = writeln!(html, "<div class=\"row\">{row}</div>");
    }
    html + "</figure>\n"
}
