//! Flame graphs on pages for a browser: rows of boxes.

use std::fmt::Write as _;

use forebay_load::report::html::escape;

/// Style sheet of the graphs, with the colours of boxes.
pub(super) const STYLE: &str = include_str!("flame_graph.css");
/// Colour classes for boxes without one of their own.
pub(super) const COLOURS: [&str; 8] = [
    "green", "blue", "orange", "teal", "purple", "pink", "gold", "grey",
];

/// Adds a box to a row. `from` and `width` are fractions of the row; `told` is the tooltip, `text` the label.
pub(super) fn put_box(row: &mut String, class: &str, from: f64, width: f64, told: &str, text: &str) {
    // Writing to a String cannot fail.
    let _ = write!(
        row,
        "<span class=\"box {class}\" style=\"left:{:.3}%;width:{:.3}%\" title=\"{}\">{}</span>",
        from * 100.0,
        width * 100.0,
        escape(told),
        escape(text)
    );
}

/// A graph of such rows, with a caption.
pub(super) fn figure(caption: &str, rows: &[String]) -> String {
    let mut html = String::from("<figure class=\"flame\">");
    if !caption.is_empty() {
        // Writing to a String cannot fail.
        let _ = write!(html, "<figcaption><span>{}</span></figcaption>", escape(caption));
    }
    html.push('\n');
    for row in rows {
        // Writing to a String cannot fail.
        let _ = writeln!(html, "<div class=\"row\">{row}</div>");
    }
    html + "</figure>\n"
}
