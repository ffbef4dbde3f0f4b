//! The chart of speed in the README, drawn from the tables of `docs/performance.md`.
//!
//! Each row compares one network: the bar behind is the time of the other runtime, the bar in front is Attaché's share of
//! it. The picture has no background and follows the reader's choice of a light or a dark page.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use crate::root;

/// The chart, relative to the folder of the workspace.
pub(crate) const PATH: &str = "docs/speed.svg";

/// A table of `docs/performance.md`, and what of it the chart shows.
struct Comparison {
    /// The heading above the table.
    heading: &'static str,
    /// What the chart writes above the rows.
    title: &'static str,
    /// The columns with the other runtime's times and with Attaché's.
    columns: [&'static str; 2],
    /// The column with the range of the ratio, if there is one. Without it, the ratio is that of the two times.
    range: Option<&'static str>,
}

const COMPARISONS: [Comparison; 2] = [
    Comparison {
        heading: "## Comparison with LiteRT",
        title: "LiteRT 2.3 GPU, 32-bit floats",
        columns: ["LiteRT e2e", "f32 e2e"],
        range: Some("faster"),
    },
    Comparison {
        heading: "## Comparison with PyTorch",
        title: "PyTorch 2.11 CUDA graphs, 16-bit floats",
        columns: ["PyTorch f16", "f16 e2e"],
        range: None,
    },
];

/// One network: its name, the milliseconds of the other runtime and of Attaché as the page writes them, and how many
/// times as fast Attaché is.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    other: String,
    ours: String,
    /// Attaché's time divided by the other runtime's.
    share: f64,
    ratio: String,
}

/// Sizes in the units of the picture.
const WIDTH: usize = 760;
const LEFT: usize = 200;
const BAR: usize = 440;
const PITCH: usize = 24;

/// Returns the text of the chart.
pub(crate) fn text() -> Result<String> {
    let path = root().join("docs/performance.md");
    let page = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let groups = COMPARISONS.iter().map(|comparison| Ok((comparison, rows(&page, comparison)?)));
    Ok(draw(&groups.collect::<Result<Vec<_>>>()?))
}

/// Reads the rows of a comparison from its table.
fn rows(page: &str, comparison: &Comparison) -> Result<Vec<Row>> {
    let heading = comparison.heading;
    let mut lines = page.lines().skip_while(|line| *line != heading).skip_while(|line| !line.starts_with('|'));
    let header = cells(lines.next().with_context(|| format!("docs/performance.md has no table below \"{heading}\""))?);
    let column = |name: &str| {
        let found = header.iter().position(|cell| *cell == name);
        found.with_context(|| format!("the table below \"{heading}\" has no column \"{name}\""))
    };
    let [other, ours] = comparison.columns.map(column);
    let (other, ours, range) = (other?, ours?, comparison.range.map(column).transpose()?);
    let body = lines.skip(1).take_while(|line| line.starts_with('|'));
    let rows: Vec<Row> = body.map(|line| row(&cells(line), other, ours, range)).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the table below \"{heading}\" is empty");
    Ok(rows)
}

/// Makes a row of the cells of a line of the table, with times and range in these columns.
fn row(cells: &[&str], other: usize, ours: usize, range: Option<usize>) -> Result<Row> {
    let cell = |column: usize| cells.get(column).copied().with_context(|| format!("no column {column} in {cells:?}"));
    // The first of several times counts.
    let time = |column: usize| {
        let text = cell(column)?.split(',').next().unwrap_or_default().trim();
        let number = text.parse::<f64>().with_context(|| format!("\"{text}\" is no time"))?;
        let text = if text.starts_with('.') { format!("0{text}") } else { text.to_owned() };
        anyhow::Ok((text, number))
    };
    let ((other, slow), (ours, fast)) = (time(other)?, time(ours)?);
    let ratio = match range {
        Some(column) => cell(column)?.to_owned(),
        None => format!("{:.1} ×", slow / fast),
    };
    Ok(Row { name: cell(0)?.to_owned(), other, ours, share: fast / slow, ratio })
}

fn cells(line: &str) -> Vec<&str> {
    line.trim().trim_matches('|').split('|').map(str::trim).collect()
}

/// Draws the groups of rows below each other.
fn draw(groups: &[(&Comparison, Vec<Row>)]) -> String {
    let (mut body, mut y) = (String::new(), 34);
    for (comparison, rows) in groups {
        line(
            &mut body,
            format_args!(
                "<text x=\"16\" y=\"{y}\" class=\"title\">Attaché (front) and {} (behind)</text>",
                comparison.title
            ),
        );
        y += 12;
        for row in rows {
            bar(&mut body, y, row);
            y += PITCH;
        }
        y += 30;
    }
    let notes = [
        "Milliseconds end to end at batch 1 on an NVIDIA H200, copies from and to the caller's memory included.",
        "On the right, how many times as fast Attaché is: the range over several rounds where these were measured.",
    ];
    for note in notes {
        line(&mut body, format_args!("<text x=\"16\" y=\"{}\" class=\"note\">{note}</text>", y - 8));
        y += 18;
    }
    format!(
        "<!-- Generated by `cargo xtask generate` from docs/performance.md; do not edit. -->\n\
        <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
        aria-label=\"Time of Attaché as a part of the time of LiteRT and PyTorch\">\n{STYLE}{body}</svg>\n",
        height = y - 10
    )
}

/// Colours for light pages, and those that replace them on dark ones.
const STYLE: &str = "  <style>
    text { font: 13px system-ui, sans-serif; fill: #1f2328; }
    .title { font-weight: 600; } .note, .other { fill: #59636e; } .note { font-size: 12px; } .ratio { font-weight: 600; }
    .behind { fill: #d8dee4; } .ours { fill: #1a7f5a; } .inside { fill: #ffffff; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e6edf3; } .note, .other { fill: #9198a1; }
      .behind { fill: #3d444d; } .ours { fill: #3fb98a; } .inside { fill: #0d1117; }
    }
  </style>
";

/// Draws a row whose upper edge is at `y`.
fn bar(body: &mut String, y: usize, row: &Row) {
    let Row { name, other, ours, share, ratio } = row;
    let (length, baseline, end) = (BAR as f64 * share.min(1.0), y + 14, LEFT + BAR);
    line(body, format_args!("<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{name}</text>", LEFT - 10));
    for (class, width) in [("behind", BAR as f64), ("ours", length)] {
        let size = format!("width=\"{width:.1}\" height=\"18\"");
        line(body, format_args!("<rect x=\"{LEFT}\" y=\"{y}\" {size} rx=\"3\" class=\"{class}\"/>"));
    }
    // Attaché's time stands right of its bar or, where that leaves no room for it, inside the bar.
    let (x, style) = match length < 0.8 * BAR as f64 {
        true => (length + 6.0, "text-anchor=\"start\""),
        false => (length - 6.0, "text-anchor=\"end\" class=\"inside\""),
    };
    line(body, format_args!("<text x=\"{:.1}\" y=\"{baseline}\" {style}>{ours}</text>", LEFT as f64 + x));
    let other_style = "text-anchor=\"end\" class=\"other\"";
    line(body, format_args!("<text x=\"{}\" y=\"{baseline}\" {other_style}>{other}</text>", end - 6));
    line(body, format_args!("<text x=\"{}\" y=\"{baseline}\" class=\"ratio\">{ratio}</text>", end + 10));
}

fn line(body: &mut String, element: std::fmt::Arguments<'_>) {
    writeln!(body, "  {element}").expect("a string takes any text");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_by_the_names_of_columns() {
        let page =
            "## A\n\ntext\n\n| Model | x | other | ours |\n|---|---|---|---|\n| one | 9 | 4.0 | .5, .6 |\n\n| no |";
        let comparison = Comparison { heading: "## A", title: "", columns: ["other", "ours"], range: None };
        let row =
            Row { name: "one".into(), other: "4.0".into(), ours: "0.5".into(), share: 0.125, ratio: "8.0 ×".into() };
        assert_eq!(rows(page, &comparison).unwrap(), [row]);
        let missing = Comparison { columns: ["other", "y"], ..comparison };
        assert!(rows(page, &missing).unwrap_err().to_string().contains("\"y\""));
    }

    #[test]
    fn the_chart_has_every_row() {
        let chart = text().unwrap();
        assert_eq!((chart.matches("class=\"ours\"").count(), text().unwrap()), (9, chart.clone()));
        assert!(chart.contains("prefers-color-scheme: dark"));
    }
}
