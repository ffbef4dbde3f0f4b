//! Runs a detector on the pictures of a data set.

use std::path::PathBuf;
use std::time::Instant;

use attache::model::Subgraph;
use attache::{CompiledModel, DataType, Interpreter, Shape};

use super::pictures::{self, Preparation};
use super::workers;
use crate::commands::run::detections::{self, Detection};
use crate::console::Console;
use crate::failure::{Failure, Kind};
use crate::io::numbers::numbers;
use crate::measure::timing::milliseconds;

/// What a detector found in a picture.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The place of the picture among those that were given.
    pub(crate) index: usize,
    /// Size of the picture in pixels.
    pub(crate) height: usize,
    pub(crate) width: usize,
    /// Classes count from 0 without the background.
    pub(crate) found: Vec<Detection>,
}

/// What came of all pictures.
#[derive(Clone, Debug, Default)]
pub(crate) struct Detected {
    pub(crate) seen: Vec<Seen>,
    /// Milliseconds for each picture: reading and preparing it, and running the model.
    pub(crate) preparing: Vec<f64>,
    pub(crate) running: Vec<f64>,
    /// What is wrong with pictures that were left out.
    pub(crate) problems: Vec<String>,
}

/// Returns the places of boxes, classes, scores and count among the outputs; an error if the model is no detector of
/// objects in pictures. `asked` are the places that the command line names.
pub(crate) fn outputs(
    interpreter: &Interpreter,
    graph: &Subgraph,
    asked: Option<[usize; 4]>,
    model: &str,
) -> Result<[usize; 4], Failure> {
    let [input] = interpreter.inputs() else {
        let text = format!("it has {} inputs; a detector has one", interpreter.inputs().len());
        return Err(Failure::unsupported(text).at(model));
    };
    pictures::size(input, model)?;
    let forms: Vec<(DataType, Shape)> =
        interpreter.outputs().iter().map(|info| (info.data_type, info.shape.clone())).collect();
    let count = forms.len();
    if let Some(asked) = asked {
        return match asked.iter().find(|place| **place >= count) {
            Some(place) => Err(Failure::usage(format!("there is no output {place}, of the {count} outputs")).at(model)),
            None => Ok(asked),
        };
    }
    // Without the operator that ends such models, the outputs have the usual order.
    let usual = (count == 4).then_some([0, 1, 2, 3]);
    detections::outputs(graph, &forms).or(usual).ok_or_else(|| {
        let text = format!("it has {count} outputs; a detector has boxes, classes, scores and their number");
        Failure::unsupported(text).at(model)
    })
}

/// Runs a detector on these pictures, on so many threads.
pub(crate) fn evaluate(
    console: &Console,
    runner: (&CompiledModel, usize),
    outputs: [usize; 4],
    preparation: &Preparation,
    paths: &[PathBuf],
) -> Result<Detected, Failure> {
    let items: Vec<(usize, &PathBuf)> = paths.iter().enumerate().collect();
    let work = |interpreter: &mut Interpreter, (index, path): &(usize, &PathBuf)| {
        let start = Instant::now();
        let prepared = preparation.input(path, &interpreter.inputs()[0])?;
        let preparing = milliseconds(start);
        interpreter.write_bytes(0, &prepared.array.bytes)?;
        interpreter.reset_variables();
        let start = Instant::now();
        interpreter.invoke()?;
        let mut values: [Vec<f64>; 4] = Default::default();
        for (value, output) in values.iter_mut().zip(outputs) {
            let info = &interpreter.outputs()[output];
            *value = numbers(info.data_type, interpreter.read_bytes(output)?).unwrap_or_default();
        }
        let running = milliseconds(start);
        let values = values.each_ref().map(Vec::as_slice);
        let found = detections::detections(values, &[], f64::NEG_INFINITY);
        Ok((Seen { index: *index, height: prepared.height, width: prepared.width, found }, preparing, running))
    };
    let mut all = Detected::default();
    for result in workers::for_each(console, runner, &items, work)? {
        match result {
            Ok((seen, preparing, running)) => {
                all.seen.push(seen);
                all.preparing.push(preparing);
                all.running.push(running);
            }
            Err(failure) if failure.kind == Kind::Usage => all.problems.push(failure.message),
            Err(failure) => return Err(failure),
        }
    }
    Ok(all)
}
