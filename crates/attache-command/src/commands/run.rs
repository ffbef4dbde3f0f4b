//! `attache run`: runs a model once, prints a summary of its outputs and what they mean, and writes them to
//! files.

pub(super) mod detections;
mod draw;
mod key_points;
mod maps;
mod meaning;

use std::path::{Path, PathBuf};

use attache::{DataType, Interpreter, NodePlacement, Outcome, Shape, Strings, TensorInfo};
use clap::Args;
use meaning::{AnswerOutputs, Meaning, Question};
use serde_json::{Value, json};

use super::Command;
use crate::arguments::entry::Entry;
use crate::arguments::{CacheArgument, DeviceArguments, EntryArguments, ModelArgument, finite, whole};
use crate::console::{Console, Report};
use crate::device::{Device, shapes_are_known};
use crate::draw::format;
use crate::failure::Failure;
use crate::inputs::{Given, InputArguments, Setting};
use crate::io::array::Array;
use crate::io::files;
use crate::io::labels::Labels;
use crate::io::npy;
use crate::io::numbers::{Summary, numbers};
use crate::io::picture::Picture;
use crate::io::places::Places;
use crate::io::source::Source;
use crate::io::texts;

#[derive(Args, Debug)]
pub(super) struct Run {
    #[command(flatten)]
    model: ModelArgument,
    #[command(flatten)]
    inputs: InputArguments,
    /// Folder for the outputs, as out_0.npy, out_1.npy and so on; without it none are written
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// File (PNG, JPEG) for the input picture with what the outputs mean drawn on it
    ///
    /// Draws boxes with labels, classes of pixels and masks in colours, key points of bodies and faces, or
    /// the top classes as text, depending on the outputs. If the model makes a picture, it is written as it
    /// is.
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    /// Names of the classes, one per line; by default those in the model. There must be one for each class; a first
    /// line "background" (for detectors also "???") is allowed although the model does not count it
    #[arg(short, long, value_name = "FILE")]
    labels: Option<PathBuf>,
    /// Number of top classes or of detections to print [default: 5 classes if there are labels or a --threshold; all
    /// detections]
    #[arg(long, value_name = "K", allow_negative_numbers = true, value_parser = whole::<usize, 1>)]
    top: Option<usize>,
    /// Minimum score of a class or detection to print [default: none for classes, 0.4 for detectors]
    #[arg(long, value_name = "X", allow_hyphen_values = true, value_parser = finite::<f64>)]
    threshold: Option<f64>,
    #[command(flatten)]
    entry: EntryArguments,
    #[command(flatten)]
    device: DeviceArguments,
}

/// Data type, shape and name of an output.
type OutputForm = (DataType, Shape, String);

/// An output of the run: its elements as stored and as floats, and their summary.
struct Output {
    info: TensorInfo,
    array: Array,
    values: Vec<f64>,
    summary: Summary,
}

impl Output {
    /// Returns the elements of an output of strings; `None` for others.
    fn strings(&self) -> Option<Strings<'_>> {
        let is_text = self.info.data_type == DataType::String;
        is_text.then(|| Strings::new(&self.array.bytes, self.info.shape.elements()).ok()).flatten()
    }
}

/// The result of `attache run`.
struct Answer {
    device: Device,
    interpreter: Interpreter,
    given: Given,
    outputs: Vec<Output>,
    /// Paths of the files to which outputs were written; none without `--out`.
    files: Vec<PathBuf>,
    /// Whether writing files failed.
    is_unwritten: bool,
    /// The file of the drawing.
    drawn: Option<PathBuf>,
    meaning: Meaning,
}

impl Command for Run {
    fn run(self, console: &Console) -> Result<Report, Failure> {
        self.check_destinations()?;
        let source = Source::find(&self.model.model)?;
        let mut device = self.device.clone();
        device.cache.get_or_insert(CacheArgument::Auto);
        let opening = Device::open_beside(&device);
        let model = source.open()?;
        let entry = Entry::new(&model, &source.name, &self.entry)?;
        self.check_outputs(entry.subgraph().outputs.len())?;
        let labels = Labels::find(self.labels.as_deref(), &model, console)?;
        let device = opening.wait()?;
        let mut interpreter = device.interpreter(&entry)?;
        // Errors that follow from known shapes are reported before the model runs.
        let known = shapes_are_known(&entry);
        let find = |interpreter: &Interpreter| self.answer_outputs(console, &entry, interpreter, &labels);
        let found = known.then(|| find(&interpreter)).transpose()?;
        let setting = Setting { console, entry: &entry, device: &device };
        let given = self.inputs.fill_all(setting, &mut interpreter)?;
        let draws_on_nothing = self.draw.is_some() && given.picture.is_none();
        if draws_on_nothing && found.as_ref().is_some_and(|found| !found.is_picture()) {
            return Err(draw::no_picture());
        }
        interpreter.invoke().map_err(|error| given.explain(&source.name, error.into()))?;
        console.log(&interpreter.placement().log);
        let outputs = outputs(&interpreter, console.json)?;
        let found = found.map_or_else(|| find(&interpreter), Ok)?;
        let meaning = self.question(&labels).answer(found, &outputs, picture_size(&interpreter));
        let (files, failure) = self.write(&outputs, &meaning, given.picture.as_ref())?;
        let drawn = self.draw.filter(|_| failure.is_none());
        let is_unwritten = failure.is_some();
        let answer = Answer { device, interpreter, given, outputs, files, is_unwritten, drawn, meaning };
        // There may be far more strings than anybody needs who does not ask for them.
        let json = if console.json { answer.json() } else { Value::Null };
        Ok(Report::new(answer.text(console), json).with_failure(failure))
    }
}

impl Run {
    /// Returns an error if `--draw` names a file, or `--out` a folder, that cannot be written.
    fn check_destinations(&self) -> Result<(), Failure> {
        self.out.as_deref().map_or(Ok(()), files::probe_folder)?;
        self.draw.as_deref().map_or(Ok(()), |path| format(path).map(drop))?;
        let places = self.places();
        // The folder of `--out` is made before the picture is written.
        let is_below = self.draw.as_deref().is_some_and(|path| path.parent() == self.out.as_deref() && !path.exists());
        if is_below { places.check_distinct() } else { places.check() }
    }

    /// Returns an error if the files of `count` outputs would replace what is read.
    fn check_outputs(&self, count: usize) -> Result<(), Failure> {
        let paths: Vec<PathBuf> =
            self.out.iter().flat_map(|folder| (0..count).map(|index| output(folder, index))).collect();
        self.places().writes("--out", paths.iter().map(PathBuf::as_path)).check_distinct()
    }

    fn places(&self) -> Places {
        let places = self.device.places().reads("MODEL", [self.model.model.as_path()]);
        let places = places.reads("--input", self.inputs.files()).reads("--labels", self.labels.as_deref());
        places.writes("--draw", self.draw.as_deref())
    }

    /// Determines which outputs are interpreted, as far as the outputs' shapes are known.
    fn answer_outputs(
        &self,
        console: &Console,
        entry: &Entry<'_>,
        interpreter: &Interpreter,
        labels: &Labels,
    ) -> Result<AnswerOutputs, Failure> {
        let form = |info: &TensorInfo| (info.data_type, info.shape.clone(), info.name.clone());
        let forms: Vec<OutputForm> = interpreter.outputs().iter().map(form).collect();
        self.question(labels).answer_outputs(console, entry.subgraph(), &forms)
    }

    fn question<'a>(&self, labels: &'a Labels) -> Question<'a> {
        Question { labels, top: self.top, threshold: self.threshold, draw: self.draw.is_some() }
    }

    /// Writes each output to a file `out_K.npy` in the folder of `--out`, and the drawing. Returns the paths
    /// of the outputs; if a file cannot be made, none is written, and the failure is returned instead. It is an error if
    /// the content of a file cannot be made.
    fn write(
        &self,
        outputs: &[Output],
        meaning: &Meaning,
        picture: Option<&Picture<u8>>,
    ) -> Result<(Vec<PathBuf>, Option<Failure>), Failure> {
        let mut all = Vec::new();
        for (folder, (index, output)) in
            self.out.iter().flat_map(|folder| outputs.iter().enumerate().map(move |it| (folder, it)))
        {
            let path = self::output(folder, index);
            let bytes = npy::encode(&path, &output.array)?;
            all.push((path, bytes));
        }
        let paths: Vec<PathBuf> = all.iter().map(|(path, _)| path.clone()).collect();
        if let Some(path) = &self.draw {
            all.push((path.clone(), draw::draw(meaning, picture)?.encode(format(path)?)?));
        }
        let all: Vec<(&Path, &[u8])> = all.iter().map(|(path, bytes)| (path.as_path(), bytes.as_slice())).collect();
        Ok(match files::write_all_in(self.out.as_deref(), &all) {
            Ok(()) => (paths, None),
            Err(failure) => (Vec::new(), Some(failure)),
        })
    }
}

/// Returns the path of the file of an output in the folder of `--out`.
fn output(folder: &Path, index: usize) -> PathBuf {
    folder.join(format!("out_{index}.npy"))
}

/// Returns the height and width of the first input that takes pictures; 1 and 1 if there is none.
fn picture_size(interpreter: &Interpreter) -> [usize; 2] {
    let sizes = interpreter.inputs().iter().filter_map(|info| maps::plane(&info.shape));
    sizes.map(|[height, width, _]| [height, width]).next().unwrap_or([1, 1])
}

/// Upper bound of the memory for a string in JSON besides its bytes, with the allocator's share.
const BYTES_OF_A_STRING: usize = 64;

/// Reads and summarizes the outputs of the last run. With `json`, strings become JSON.
fn outputs(interpreter: &Interpreter, json: bool) -> Result<Vec<Output>, Failure> {
    let all = interpreter.outputs().iter().enumerate();
    // Each output is copied as it is, twice where it is written to a file, and as numbers or as JSON.
    let mut sizes = all.clone().map(|(index, _)| interpreter.read_bytes(index));
    let bytes = sizes.try_fold(0, |sum, bytes| Ok::<usize, attache::Error>(sum + bytes?.len()))?;
    let more = |info: &TensorInfo| match info.data_type {
        DataType::String => info.shape.elements().saturating_mul(if json { BYTES_OF_A_STRING } else { 0 }),
        _ => info.shape.elements().saturating_mul(size_of::<f64>()),
    };
    let more = interpreter.outputs().iter().map(more).fold(0, usize::saturating_add);
    let room = bytes.saturating_mul(2).saturating_add(more);
    Vec::<u8>::new().try_reserve_exact(room).map_err(|_| {
        Failure::unsupported(format!("the outputs have {bytes} bytes, and there is no memory for copies of them"))
    })?;
    all.map(|(index, info)| {
        let bytes = interpreter.read_bytes(index)?.to_vec();
        let values = numbers(info.data_type, &bytes).unwrap_or_default();
        let summary = Summary::of(&values);
        let array = Array { data_type: info.data_type, shape: info.shape.clone(), bytes };
        Ok(Output { info: info.clone(), array, values, summary })
    })
    .collect()
}

/// Returns where an operator runs, and why, as a JSON object.
fn placement(node: &NodePlacement) -> Value {
    let (runs_on, partition) = match &node.outcome {
        Outcome::On { delegate, partition } => (delegate.as_str(), Some(*partition)),
        Outcome::Cpu => ("cpu", None),
        Outcome::Folded { into } => (into.as_str(), None),
    };
    json!({
        "subgraph": node.subgraph,
        "index": node.index,
        "operator": node.operator,
        "version": node.version,
        "place": runs_on,
        "partition": partition,
        "merged": node.merged,
        "reason": node.reason,
        "inlined": node.inlined.iter().map(placement).collect::<Vec<_>>(),
    })
}

impl Answer {
    fn json(&self) -> Value {
        let output = |output: &Output| {
            let Summary { min, max, mean, nonfinite } = output.summary;
            let mut object = json!({
                "name": output.info.name,
                "shape": output.info.shape.extents(),
                "dtype": output.info.data_type.name().to_lowercase(),
                "min": min,
                "max": max,
                "mean": mean,
                "nonfinite": nonfinite,
                "strings": null,
            });
            // Not within the macro, which would copy them.
            if let Some(strings) = output.strings() {
                object["strings"] = strings.iter().map(String::from_utf8_lossy).collect();
            }
            object
        };
        let adapter = self.device.adapter();
        let mut object = json!({
            "delegate": self.device.delegate(),
            "device": adapter.map(|adapter| &adapter.name),
            "backend": adapter.map(|adapter| &adapter.backend),
            "precision": self.device.precision.word(),
            "quantized": self.device.quantized.word(),
            "inputs": self.given.json(),
            "outputs": null,
            "files": self.files.iter().map(|path| files::json(path)).collect::<Vec<_>>(),
            "drawn": self.drawn.as_deref().map(files::json),
            "fallback": self.interpreter.report().fallback,
            "placement": self.interpreter.placement().nodes.iter().map(placement).collect::<Vec<_>>(),
        });
        object["outputs"] = self.outputs.iter().map(output).collect();
        self.meaning.add_to(&mut object);
        object
    }

    fn text(&self, console: &Console) -> String {
        let mut parts = vec![self.device.describe()];
        parts.extend(self.given.text(console));
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.6}"));
        let row = |output: &Output| {
            let Summary { min, max, mean, nonfinite } = output.summary;
            let (name, shape) = (console.name(&output.info.name), output.info.shape.to_string());
            let data_type = output.info.data_type.name().to_lowercase();
            vec![name, shape, data_type, number(min), number(max), number(mean), nonfinite.to_string()]
        };
        let heading = ["output", "shape", "dtype", "min", "max", "mean", "nonfinite"];
        parts.push(console.table(&heading, &self.outputs.iter().map(row).collect::<Vec<_>>()));
        let texts = self.outputs.iter().filter_map(|output| Some((output, output.strings()?)));
        for (output, strings) in texts.filter(|(_, strings)| !strings.is_empty()) {
            parts.push(format!("{}: {}", console.name(&output.info.name), texts::shown(strings)));
        }
        parts.extend(self.meaning.text(console));
        parts.push(self.destination());
        parts.extend(self.drawn.iter().map(|path| format!("drawn to {}", path.display())));
        parts.join("\n")
    }

    /// Returns a line that says to which files the outputs were written.
    fn destination(&self) -> String {
        match self.files.as_slice() {
            [] if self.is_unwritten => "outputs are not written".to_owned(),
            [] => "outputs are not written; --out DIR writes them as .npy files".to_owned(),
            [only] => format!("output written to {}", only.display()),
            [first, .., last] => format!("outputs written to {} to {}", first.display(), last.display()),
        }
    }
}
