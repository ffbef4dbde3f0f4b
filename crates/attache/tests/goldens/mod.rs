//! The golden cases of `conformance/cases` and the random graphs of `conformance/graphs`: loads them, runs
//! them and compares the outputs with LiteRT's.

#[path = "../../../attache-ops/tests/npy/mod.rs"]
mod npy;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use attache::diff::{Difference, Tolerance, Trace, TraceInput};
use attache::model::{QuantizationDetails, Tensor};
use attache::{DataType, Delegate, Error, Interpreter, InterpreterBuilder, Limits, Model, NodePlacement, Shape};

/// Minimum number of golden cases in `conformance/cases`, so that missing cases are a failure.
const COUNT: usize = 810;

/// The kinds of random graphs, each with the minimum number of graphs. The kind is the element type that
/// stores their floats. The graphs are those of seed 7 with at most 7000 bytes, written by
/// `conformance/graphs.py`.
const GRAPHS: [(&str, usize); 3] = [("f32", 30), ("int8", 20), ("uint8", 20)];

/// Minimum number of cases in `conformance/xnn_pack`.
const ROUNDED_ONCE: usize = 40;

/// Whether the feature `_poison` overwrites the outputs of CPU kernels, so that only outputs that a delegate
/// computed can be right.
const POISONED: bool = cfg!(feature = "_poison");

/// Operators that compute no elements on the CPU: they run subgraphs, all of whose operators may run on the GPU, or pass a
/// tensor on under another shape.
const PASSING: [&str; 7] =
    ["IF", "WHILE", "STABLEHLO_CASE", "STABLEHLO_COMPOSITE", "RESHAPE", "EXPAND_DIMS", "SQUEEZE"];

/// The contents of a tensor: type, shape and little-endian elements.
pub(crate) struct Value {
    data_type: DataType,
    shape: Shape,
    bytes: Vec<u8>,
}

impl Value {
    fn new(data_type: DataType, shape: Shape, bytes: &[u8]) -> Self {
        Self { data_type, shape, bytes: bytes.to_vec() }
    }
}

/// A golden case or a random graph, read from its folder: a model, inputs, and LiteRT's outputs.
pub(crate) struct Case {
    pub(crate) name: String,
    /// The largest magnitude that occurs in the computation, from `case.json`; tolerances are relative to it.
    scale: f32,
    model: Model,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
    /// LiteRT's outputs with dequantized weights, for models with quantized weights and float activations;
    /// empty for others.
    dequantized: Vec<Value>,
}

impl Case {
    fn load(folder: &Path) -> Self {
        let description = std::fs::read(folder.join("case.json")).expect("case.json");
        let description: serde_json::Value = serde_json::from_slice(&description).expect("case.json is an object");
        let arrays = |stem: &str| -> Vec<Value> {
            let paths = (0..).map(|index| folder.join(format!("{stem}_{index}.npy")));
            paths.take_while(|path| path.exists()).map(|path| npy::read(&path).expect("an array")).collect()
        };
        Self {
            name: folder.file_name().expect("a folder has a name").to_string_lossy().into_owned(),
            scale: description["scale"].as_f64().expect("case.json has a scale") as f32,
            model: Model::from_path(folder.join("model.tflite")).expect("a model"),
            inputs: arrays("in"),
            outputs: arrays("out"),
            dequantized: arrays("dequantized"),
        }
    }

    /// Returns the model of the case.
    #[allow(dead_code)] // Not used by every test binary.
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the bytes of an input.
    #[allow(dead_code)] // Not used by every test binary.
    pub(crate) fn input(&self, index: usize) -> &[u8] {
        &self.inputs[index].bytes
    }

    /// Builds an interpreter with the input shapes of the case, after `configure` has set further options.
    pub(crate) fn interpreter(
        &self,
        configure: impl Fn(InterpreterBuilder) -> InterpreterBuilder,
    ) -> Result<Interpreter, Error> {
        let shapes = self.inputs.iter().map(|input| &input.shape).enumerate();
        // Poisoned results may be used as extents or as numbers of iterations. The limits turn those into errors
        // quickly.
        let limits = Limits::default().tensor_bytes(64 << 20).arena_bytes(64 << 20).loop_steps(1000);
        let builder = Interpreter::builder(&self.model).threads(1).limits(limits);
        let builder = shapes.fold(builder, |builder, (index, shape)| builder.input_shape(index, shape));
        configure(builder).build()
    }

    /// Writes the inputs of the case to an interpreter.
    pub(crate) fn write(&self, interpreter: &mut Interpreter) -> Result<(), String> {
        let mut inputs = self.inputs.iter().enumerate();
        inputs.try_for_each(|(index, input)| interpreter.write_bytes(index, &input.bytes).map_err(|e| e.to_string()))
    }

    /// Compares the outputs `made` of an interpreter with the `expected` ones, both as bytes of the types and
    /// shapes of the interpreter's outputs. Floats may differ by `tolerance` times the largest magnitude of
    /// the case.
    #[allow(dead_code)] // Used by a single test binary.
    pub(crate) fn compare_all(
        &self,
        interpreter: &Interpreter,
        expected: &[Vec<u8>],
        made: &[Vec<u8>],
        tolerance: f32,
    ) -> Result<(), String> {
        for (index, (expected, made)) in expected.iter().zip(made).enumerate() {
            let info = &interpreter.outputs()[index];
            if expected.len() != made.len() {
                return Err(format!("output {index}: {} bytes where {} belong", made.len(), expected.len()));
            }
            let expected = Value::new(info.data_type, info.shape.clone(), expected);
            compare(made, &expected, self.scale, tolerance).map_err(|error| format!("output {index}: {error}"))?;
        }
        Ok(())
    }

    /// Runs the case twice on an interpreter, so that the second run uses the data that the interpreter
    /// keeps; variables are reset before each run. Returns an error if the outputs of the second run differ
    /// from the expected ones by more than `tolerance`, relative to the largest magnitude of the case.
    pub(crate) fn check(&self, interpreter: &mut Interpreter, tolerance: f32) -> Result<(), String> {
        self.check_each(interpreter, &self.outputs, |made, expected| compare(made, expected, self.scale, tolerance))
    }

    /// Checks the case like [`Case::check`], but with a tolerance in quantization steps for quantized
    /// outputs, and against the outputs with dequantized weights if the case has them.
    #[allow(dead_code)] // Used by a single test binary.
    pub(crate) fn check_in_steps(&self, interpreter: &mut Interpreter, tolerance: &Tolerance) -> Result<(), String> {
        let outputs = if self.dequantized.is_empty() { &self.outputs } else { &self.dequantized };
        self.check_each(interpreter, outputs, |made, expected| {
            let difference = Difference::of(expected.data_type, &expected.bytes, made).ok_or("no numbers")?;
            let far = || format!("off by {:e}, {:?} by steps", difference.relative(), difference.steps);
            if difference.is_within(tolerance) { Ok(()) } else { Err(far()) }
        })
    }

    fn check_each(
        &self,
        interpreter: &mut Interpreter,
        outputs: &[Value],
        compare: impl Fn(&[u8], &Value) -> Result<(), String>,
    ) -> Result<(), String> {
        self.write(interpreter)?;
        for _ in 0..2 {
            interpreter.reset_variables();
            interpreter.invoke().map_err(|error| error.to_string())?;
        }
        let (made, wanted) = (interpreter.outputs().len(), outputs.len());
        if made != wanted {
            return Err(format!("{made} outputs where {wanted} belong"));
        }
        for (index, expected) in outputs.iter().enumerate() {
            let info = &interpreter.outputs()[index];
            if (info.data_type, &info.shape) != (expected.data_type, &expected.shape) {
                let (made, wanted) = (info.data_type, expected.data_type);
                return Err(format!("output {index}: {made} {} for {wanted} {}", info.shape, expected.shape));
            }
            let bytes = interpreter.read_bytes(index).map_err(|error| error.to_string())?;
            compare(bytes, expected).map_err(|error| format!("output {index}: {error}"))?;
        }
        no_panics(interpreter)
    }

    /// Whether the case is a random graph.
    #[allow(dead_code)] // Used by a single test binary.
    pub(crate) fn is_graph(&self) -> bool {
        self.name.contains("_graph_")
    }

    /// Runs each operator of the case alone on a delegate, with the CPU's values as inputs. Returns an error
    /// if an output differs from the CPU's by more than `tolerance`.
    #[allow(dead_code)] // Used by a single test binary.
    pub(crate) fn check_alone(&self, delegate: &Arc<dyn Delegate>, tolerance: &Tolerance) -> Result<(), String> {
        let inputs = self.inputs.iter();
        let inputs: Vec<TraceInput> =
            inputs.map(|input| TraceInput { shape: input.shape.clone(), bytes: input.bytes.clone() }).collect();
        let trace = Trace::new(&self.model, 0, &inputs, 1, &Limits::default()).map_err(|error| error.to_string())?;
        for node in 0..trace.nodes() {
            let comparison =
                trace.compare_operator(node, std::slice::from_ref(delegate)).map_err(|error| error.to_string())?;
            let differences = comparison.outcome.unwrap_or_default();
            if let Some(far) = differences.iter().find(|difference| !difference.is_within(tolerance)) {
                let (operator, name) = (comparison.operator, comparison.name);
                return Err(format!(
                    "operator {operator} ({name}): off by {:e}, {:?} by steps",
                    far.relative(),
                    far.steps
                ));
            }
        }
        Ok(())
    }

    /// Whether any tensor of the model is quantized.
    #[allow(dead_code)] // Used by a single test binary.
    pub(crate) fn is_quantized(&self) -> bool {
        let subgraphs = self.model.subgraphs().iter();
        let is_by_blocks = |tensor: &Tensor| tensor.quantization_details != QuantizationDetails::None;
        let mut tensors = subgraphs.flat_map(|subgraph| &subgraph.tensors);
        tensors.any(|tensor| tensor.quantization.is_some() || is_by_blocks(tensor))
    }

    /// Checks the case like [`Case::check`], for an interpreter that may leave operators to the CPU. With the
    /// feature `_poison`, the outputs must be wrong if the CPU computed any of them, and the case passes then.
    pub(crate) fn check_with_cpu(&self, interpreter: &mut Interpreter, tolerance: f32) -> Result<(), String> {
        let has_elements = self.outputs.iter().any(|output| output.shape.elements() > 0);
        // What an operator writes that stays on the CPU since a tensor of it is empty is often empty as well.
        let is_empty = |node: &NodePlacement| node.reason.as_deref() == Some("a tensor has no elements");
        let spoils = |node: &NodePlacement| !PASSING.contains(&node.operator.as_str()) && !is_empty(node);
        let may_be_spoiled = POISONED && interpreter.placement().left_behind().next().is_some();
        let is_spoiled = may_be_spoiled && has_elements && interpreter.placement().left_behind().any(spoils);
        no_panics(interpreter)?;
        match self.check(interpreter, tolerance) {
            Ok(()) if is_spoiled => Err("right, though the CPU computed some of it poisoned".into()),
            Err(_) if may_be_spoiled => Ok(()),
            result => result,
        }
    }
}

/// Returns an error with the delegates' panic messages, if any delegate panicked.
pub(crate) fn no_panics(interpreter: &Interpreter) -> Result<(), String> {
    let panics = interpreter.report().panics;
    if panics.is_empty() { Ok(()) } else { Err(panics.join("; ")) }
}

/// Compares an output with the expected one. Floats may differ by `tolerance` times `scale`, or times the
/// largest magnitude of the expected output if that is larger; infinities and NaN must be equal. Elements of
/// all types but float32 and complex64 must have the same bits.
fn compare(actual: &[u8], expected: &Value, scale: f32, tolerance: f32) -> Result<(), String> {
    if !matches!(expected.data_type, DataType::Float32 | DataType::Complex64) {
        return if actual == expected.bytes { Ok(()) } else { Err("other elements than expected".into()) };
    }
    let (actual, expected) = (floats(actual), floats(&expected.bytes));
    let largest = expected.iter().filter(|value| value.is_finite()).fold(scale, |most, value| most.max(value.abs()));
    for (index, (a, e)) in actual.iter().zip(&expected).enumerate() {
        let same = a == e || (a.is_nan() && e.is_nan());
        let near = a.is_finite() && e.is_finite() && (a - e).abs() <= tolerance * largest;
        if !same && !near {
            return Err(format!("{a} where {e} belongs at {index} (largest {largest})"));
        }
    }
    Ok(())
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

fn conformance() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance")
}

/// Returns all golden cases and all random graphs.
pub(crate) fn cases() -> Vec<Case> {
    let cases = cases_in(&conformance().join("cases"), COUNT);
    cases.into_iter().chain(graphs()).collect()
}

/// Returns the cases of `conformance/xnn_pack.py`, in which LiteRT's default interpreter and its reference kernels give
/// different results. The outputs are the default interpreter's.
#[allow(dead_code)] // Used by a single test binary.
pub(crate) fn rounded_once() -> Vec<Case> {
    cases_in(&conformance().join("xnn_pack"), ROUNDED_ONCE)
}

/// Returns all random graphs, each named after its kind and its folder.
pub(crate) fn graphs() -> Vec<Case> {
    let of_kind = |(kind, count): (&str, usize)| {
        let mut cases = cases_in(&conformance().join("graphs").join(kind), count);
        cases.iter_mut().for_each(|case| case.name = format!("{kind}_{}", case.name));
        cases
    };
    GRAPHS.into_iter().flat_map(of_kind).collect()
}

/// Returns the cases in the subfolders of a folder, sorted by name. Panics if there are fewer than `count`.
pub(crate) fn cases_in(folder: &Path, count: usize) -> Vec<Case> {
    folders(folder, count).iter().map(|folder| Case::load(folder)).collect()
}

/// Returns the subfolders of a folder, sorted. Panics if there are fewer than `count`.
fn folders(folder: &Path, count: usize) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= count, "only {} of {count} golden cases in {}", folders.len(), folder.display());
    folders
}

/// Asserts that no case failed.
///
/// # Panics
///
/// Panics with a list of the failures if there are any.
pub(crate) fn assert_none(failures: &[String]) {
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn errors_are_relative_and_what_is_not_finite_must_be_so_on_both_sides() {
    let agree = |actual: f32, expected: f32, scale| {
        let expected = Value::new(DataType::Float32, [1].into(), &expected.to_le_bytes());
        compare(&actual.to_le_bytes(), &expected, scale, 1e-3).is_ok()
    };
    assert!(agree(1.0005, 1.0, 0.0) && !agree(1.002, 1.0, 0.0) && agree(1.002, 1.0, 10.0));
    assert!(agree(f32::NAN, f32::NAN, 1.0) && agree(f32::INFINITY, f32::INFINITY, 1.0));
    for other in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        assert!(!agree(other, 1.0, 1.0) && !agree(1.0, other, 1.0));
    }
    assert!(!agree(f32::INFINITY, f32::NEG_INFINITY, 1.0) && !agree(f32::NAN, f32::INFINITY, 1.0));
}
