//! Draws what a GPU does in one run, a bar for each dispatch on an axis of time: `timeline.svg`.
//!
//!     cargo run --release -p attache-examples --bin timeline [MODEL]

use attache::{GpuDelegate, GpuDelegateOptions, Interpreter, Profile};
use attache_examples::{Arguments, Result};
use std::fmt::Write;

const WIDTH: f64 = 1000.0;
const ROW: f64 = 14.0;
const MARGIN: f64 = 30.0;
const TICKS: usize = 10;

fn main() -> Result {
    let model = Arguments::read().model("lstm_128")?;
    let gpu = GpuDelegate::new(GpuDelegateOptions::default())?.profiled()?;
    eprintln!("on {}", gpu.adapter().name);
    let mut interpreter = Interpreter::builder(&model).delegate(gpu).build()?;
    // The first run warms the device up.
    interpreter.invoke()?;
    interpreter.invoke()?;
    let profile = interpreter.profile()?;
    std::fs::write("timeline.svg", svg(&profile)?)?;
    println!("wrote timeline.svg with {} dispatches", profile.dispatches.len());
    Ok(())
}

/// Returns the picture. Times are from the start of a partition's first dispatch.
fn svg(profile: &Profile) -> Result<String> {
    let end = profile.dispatches.iter().map(|it| it.dispatch.end_ns).fold(1.0, f64::max);
    let bottom = ROW * profile.dispatches.len() as f64;
    let (width, height) = (WIDTH + 400.0, bottom + 3.0 * MARGIN);
    let mut text = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\"");
    text += " font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
    writeln!(text, "<g transform=\"translate({MARGIN} {MARGIN})\">")?;
    for tick in 0..=TICKS {
        let (x, us) = (WIDTH * tick as f64 / TICKS as f64, end / 1e3 * tick as f64 / TICKS as f64);
        writeln!(
            text,
            "<path d=\"M{x} 0V{bottom}\" stroke=\"#ddd\"/>\
             <text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{us:.0} µs</text>",
            bottom + ROW,
        )?;
    }
    for (row, it) in profile.dispatches.iter().enumerate() {
        let (left, right) = (it.dispatch.begin_ns / end * WIDTH, it.dispatch.end_ns / end * WIDTH);
        let operators: Vec<&str> = it.operators.iter().map(|(_, name)| name.as_str()).collect();
        let us = (it.dispatch.end_ns - it.dispatch.begin_ns) / 1e3;
        let y = ROW * row as f64;
        writeln!(
            text,
            "<rect x=\"{left:.1}\" y=\"{y}\" width=\"{:.1}\" height=\"{}\" fill=\"#1d6fa5\"/>\
             <text x=\"{:.1}\" y=\"{}\">{us:.1} µs {}</text>",
            (right - left).max(0.5),
            ROW - 2.0,
            right + 5.0,
            y + ROW - 4.0,
            operators.join(" + ").replace('&', "&amp;").replace('<', "&lt;"),
        )?;
    }
    Ok(text + "</g>\n</svg>\n")
}
