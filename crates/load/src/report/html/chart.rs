//! Drawings of the page. Curves are SVG that is stretched to the available room; scales and names are text beside it, so that they keep
//! their size on a phone. Positions go from 0 to 1, from the left and from the bottom.

use std::fmt::Write as _;

use super::escape;

/// Side of the drawing in its own units.
const SIDE: f64 = 1000.0;

/// The values along one side of a drawing.
#[derive(Clone, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    marks: Vec<Mark>,
}

#[derive(Clone, Debug)]
struct Mark {
    value: f64,
    name: String,
}

/// Most marks of a linear scale.
const MARKS_MAX: f64 = 5.0;

impl Scale {
    /// From 0 to at least `most`, in equal steps.
    pub fn linear(most: f64, name: impl Fn(f64) -> String) -> Self {
        let step = step_for(most);
        let count = (most / step).ceil().max(1.0) as usize;
        let marks = (0..=count).map(|at| at as f64 * step);
        Self {
            low: 0.0,
            high: count as f64 * step,
            logarithmic: false,
            marks: marks
                .map(|value| Mark {
                    value,
                    name: name(value),
                })
                .collect(),
        }
    }

    /// Powers of ten around all values between two above 0; over less than two powers also the marks between them.
    pub fn logarithmic(least: f64, most: f64, name: impl Fn(f64) -> String) -> Self {
        let (least, most) = (least.max(1.0), most.max(least).max(1.0));
        let steps: &[f64] = if most / least < 100.0 {
            &[1.0, 2.0, 5.0]
        } else {
            &[1.0]
        };
        let edges = (0..14).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
        let edges: Vec<f64> = edges.collect();
        let first = edges
            .partition_point(|edge| *edge <= least)
            .clamp(1, edges.len() - 1)
            - 1;
        let last = edges
            .partition_point(|edge| *edge < most)
            .clamp(first + 1, edges.len() - 1);
        let marks = edges[first..=last].iter().map(|&value| Mark {
            value,
            name: name(value),
        });
        Self {
            low: edges[first],
            high: edges[last],
            logarithmic: true,
            marks: marks.collect(),
        }
    }

    /// Percentiles by their distance to 100 %, of so many samples: each further nine takes as much room as the one before.
    pub fn nines(samples: u64) -> Self {
        let high = (samples.max(10) as f64).log10();
        let all = [
            (50.0, "50 %"),
            (90.0, "90 %"),
            (99.0, "99 %"),
            (99.9, "99.9 %"),
            (99.99, "99.99 %"),
            (99.999, "99.999 %"),
        ];
        let marks = all.iter().map(|&(percent, name)| Mark {
            // How many nines it has: 1 for 90, 2 for 99.
            value: -(1.0_f64 - percent / 100.0).log10(),
            name: name.to_owned(),
        });
        Self {
            low: 0.0,
            high,
            logarithmic: false,
            marks: marks.filter(|mark| mark.value <= high).collect(),
        }
    }

    /// Position of a value, from 0 to 1.
    pub(super) fn at(&self, value: f64) -> f64 {
        let at = if self.logarithmic {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if at.is_finite() { at.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The value at the upper end.
    pub(super) fn high(&self) -> f64 {
        self.high
    }
}

/// The step of 1, 2 or 5 times a power of ten that makes few marks.
fn step_for(most: f64) -> f64 {
    let rough = (most / MARKS_MAX).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= rough * 0.999)
        .unwrap_or(power * 10.0)
}

/// A drawing with its scales.
#[derive(Debug)]
pub struct Drawing {
    title: String,
    /// Description of the content for screen readers.
    says: String,
    x: Scale,
    y: Scale,
    legend: Vec<(&'static str, String)>,
    layers: String,
}

impl Drawing {
    /// An empty drawing. `says` describes its content for screen readers.
    pub fn new(title: &str, says: &str, x: Scale, y: Scale) -> Self {
        Self {
            title: title.to_owned(),
            says: says.to_owned(),
            x,
            y,
            legend: Vec::new(),
            layers: String::new(),
        }
    }

    /// Sets the name of a class of lines for the legend.
    pub fn name(&mut self, class: &'static str, name: &str) {
        self.legend.push((class, name.to_owned()));
    }

    /// A line through points.
    pub fn line(&mut self, class: &str, points: &[(f64, f64)]) {
        let mut path = String::new();
        for (at, &(x, y)) in points.iter().enumerate() {
            let (x, y) = (tenth(self.x.at(x) * SIDE), tenth((1.0 - self.y.at(y)) * SIDE));
            let _ = write!(path, "{}{x} {y}", if at == 0 { 'M' } else { 'L' });
        }
        let _ = write!(self.layers, "<path class=\"line {class}\" d=\"{path}\"/>");
    }

    /// Renders the drawing as HTML.
    pub fn write(&self) -> String {
        let mut html = format!("<figure>\n<figcaption><span>{}</span>", escape(&self.title));
        for (class, name) in &self.legend {
            let _ = write!(html, "<span class=\"key {class}\">{}</span>", escape(name));
        }
        html += "</figcaption>\n<div class=\"plot\">\n<div class=\"y\" aria-hidden=\"true\">";
        for mark in &self.y.marks {
            let at = tenth(self.y.at(mark.value) * 100.0);
            let name = escape(&mark.name);
            let _ = write!(html, "<span style=\"bottom:{at}%\">{name}</span>");
        }
        let says = escape(&self.says);
        let _ = write!(
            html,
            "</div>\n<svg viewBox=\"0 0 {SIDE} {SIDE}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{says}\">"
        );
        let mut grid = String::new();
        for mark in &self.y.marks {
            let _ = write!(grid, "M0 {}H{SIDE}", tenth((1.0 - self.y.at(mark.value)) * SIDE));
        }
        let _ = write!(html, "<path class=\"grid\" d=\"{grid}\"/>{}", self.layers);
        html += "</svg>\n<div class=\"x\" aria-hidden=\"true\">";
        for mark in &self.x.marks {
            let at = tenth(self.x.at(mark.value) * 100.0);
            let class = match at {
                at if at < 4.0 => "first",
                at if at > 96.0 => "last",
                _ => "",
            };
            let name = escape(&mark.name);
            let _ = write!(html, "<span class=\"{class}\" style=\"left:{at}%\">{name}</span>");
        }
        html.push_str("</div>\n</div>\n</figure>\n");
        html
    }
}

/// Rounded to a tenth: finer than a pixel.
fn tenth(value: f64) -> f64 {
    // Adding 0 turns a negative zero, which would be written with its sign, into a plain one.
    (value * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(scale: &Scale) -> Vec<f64> {
        scale.marks.iter().map(|mark| mark.value).collect()
    }

    #[test]
    fn scales_have_few_round_marks_around_what_they_show() {
        let shown = |value: f64| format!("{value}");
        for most in [0.0, 1e-6, 0.3, 7.0, 243_900.0, 1e12] {
            let scale = Scale::linear(most, shown);
            assert!(
                scale.high() >= most && (2..=6).contains(&scale.marks.len()),
                "{scale:?}"
            );
        }
        assert_eq!(
            marks(&Scale::linear(243_900.0, shown)),
            [0.0, 50e3, 100e3, 150e3, 200e3, 250e3]
        );
        assert_eq!(
            marks(&Scale::logarithmic(150e3, 2e9, shown)),
            [1e5, 1e6, 1e7, 1e8, 1e9, 1e10]
        );
        assert_eq!(
            marks(&Scale::logarithmic(150e3, 1e6, shown)),
            [1e5, 2e5, 5e5, 1e6]
        );
        for (least, most) in [(0.0, 0.0), (5.0, 5.0), (1.0, 3.6e12), (1e300, 1e308)] {
            let scale = Scale::logarithmic(least, most, shown);
            assert!(scale.marks.len() >= 2 && scale.at(most).is_finite(), "{scale:?}");
        }
        assert_eq!(Scale::nines(2_370_000).marks.len(), 6);
        assert_eq!(Scale::nines(0).marks.len(), 2);
    }

    #[test]
    fn nothing_is_drawn_outside() {
        let scale = Scale::linear(10.0, |value| format!("{value}"));
        for value in [-5.0, 0.0, 10.0, 1e300, f64::INFINITY, f64::NAN] {
            assert!((0.0..=1.0).contains(&scale.at(value)), "{value}");
        }
    }
}
