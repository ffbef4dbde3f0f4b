//! Runs every golden case of `conformance/cases` on the CPU and as interpreted primitives, and compares the
//! outputs with those of LiteRT.
//!
//! Nodes run one at a time, in graph order. The second run interprets the primitives of each node that can be
//! lowered. The cases with a node that cannot be lowered must be exactly those listed in
//! `conformance/expectations/gpu_f32.txt`. The GPU tests use the same list, because a device accepts every
//! node that can be lowered. The reasons in the list are not compared here.

mod npy;
mod stored;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use attache_base::{Bytes, Constant, DataType, Serial, Shape};
use attache_gpu_ir::{HostTensor, Scalar, interpret};
use attache_graph::{
    Eval, Fact, Graph, Host, Inferred, Lowering, Node, OpError, PassedTensor, Quantized, TensorId, TensorMut, TensorRef,
};
use attache_model::Model;
use attache_ops::PackedKind;

use stored::Memory;

/// Maximum absolute error of a float32 element, divided by the case's scale. LiteRT's own kernels differ from
/// each other by about this much.
const TOLERANCE: f32 = 1e-5;

/// A tensor at run time, stored in 64-bit words so that its bytes are aligned for every element type.
#[derive(Clone)]
struct Value {
    data_type: DataType,
    shape: Shape,
    words: Vec<u64>,
}

impl Value {
    fn new(data_type: DataType, shape: Shape, bytes: &[u8]) -> Self {
        let mut value = Self::zeroed(data_type, shape);
        let size = value.size();
        value.bytes_mut().copy_from_slice(&bytes[..size]);
        value
    }

    fn zeroed(data_type: DataType, shape: Shape) -> Self {
        // Cases with strings do not run here.
        let size = data_type.byte_size(shape.elements()).unwrap_or(0);
        Self { data_type, shape, words: vec![0; size.div_ceil(8)] }
    }

    fn size(&self) -> usize {
        self.data_type.byte_size(self.shape.elements()).unwrap_or(0)
    }

    fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.size()]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let size = self.size();
        &mut bytemuck::cast_slice_mut(&mut self.words)[..size]
    }

    fn constant(&self) -> Constant {
        let bytes = Bytes::from_vec(self.bytes().to_vec());
        Constant { data_type: self.data_type, shape: self.shape.clone(), bytes }
    }

    /// Converts the value to a tensor of the primitives' interpreter, whose elements are of type `scalar`.
    fn tensor(&self, scalar: Scalar) -> HostTensor {
        let constant = self.constant();
        let integers = |values: Vec<i64>| values.into_iter().map(|value| value as f64).collect();
        let elements = match (scalar, constant.floats()) {
            // The indices that argmax pooling writes are 32-bit integers in a tensor of type float32.
            (Scalar::I32, Some(_)) => {
                integers(bytemuck::cast_slice(self.bytes()).iter().map(|v: &i32| (*v).into()).collect())
            }
            (Scalar::F32, Some(floats)) => floats.iter().map(|value| f64::from(*value)).collect(),
            // Elements without a sign are the integers with the same bits.
            (_, None) if self.data_type == DataType::UInt32 => integers(
                constant.integers().expect("integers").into_iter().map(|value| (value as i32).into()).collect(),
            ),
            (_, None) if self.data_type == DataType::Complex64 => {
                let shape: Shape = self.shape.iter().copied().chain([2]).collect();
                let parts = bytemuck::cast_slice::<u8, f32>(self.bytes());
                return HostTensor::new(shape, parts.iter().map(|part| f64::from(*part)).collect());
            }
            (_, None) => integers(constant.integers().expect("integers")),
        };
        HostTensor::new(self.shape.clone(), elements)
    }

    fn from_tensor(data_type: DataType, scalar: Scalar, tensor: &HostTensor) -> Self {
        let bytes = |value: &f64| match (scalar, data_type.bits()) {
            (Scalar::F32, Some(16)) => half::f16::from_f64(*value).to_ne_bytes().to_vec(),
            (Scalar::F32, _) => (*value as f32).to_ne_bytes().to_vec(),
            (Scalar::I32, Some(8)) => vec![*value as i64 as u8],
            (Scalar::I32, Some(16)) => (*value as i64 as i16).to_ne_bytes().to_vec(),
            (Scalar::I32, Some(64)) => (*value as i64).to_ne_bytes().to_vec(),
            (Scalar::I32, _) => (*value as i32).to_ne_bytes().to_vec(),
        };
        let bytes: Vec<u8> = tensor.elements.iter().flat_map(bytes).collect();
        // Complex numbers are pairs of floats.
        let rank = tensor.shape.rank() - usize::from(data_type == DataType::Complex64);
        Self::new(data_type, tensor.shape[..rank].into(), &bytes)
    }
}

/// A [`Host`] that records the values that a node assigns to its variable inputs: the input's index and the
/// bytes.
#[derive(Default)]
struct States(Vec<(usize, Vec<u8>)>);

impl Host for States {
    fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        Err(OpError::unsupported("no subgraphs here"))
    }

    fn set_state(&mut self, input: usize, bytes: &[u8]) -> Result<(), OpError> {
        self.0.push((input, bytes.to_vec()));
        Ok(())
    }
}

/// What computes the nodes: the CPU kernels, or the interpreter of primitives.
#[derive(Clone, Copy, PartialEq)]
enum Runtime {
    Cpu,
    Primitives,
}

/// One run of a case's graph: the values of all tensors so far, by tensor id.
struct Run<'a> {
    graph: &'a Graph,
    values: Vec<Option<Value>>,
    /// Name of each node that could not be lowered, with the reason.
    refusals: Vec<String>,
}

impl<'a> Run<'a> {
    fn new(graph: &'a Graph, inputs: &[Value]) -> Self {
        let value = |constant: &Constant| {
            let size = constant.data_type.byte_size(constant.shape.elements()).expect("elements have a size");
            Value::new(constant.data_type, constant.shape.clone(), &constant.bytes[..size])
        };
        let mut values: Vec<_> = graph.tensors.iter().map(|tensor| tensor.fact.constant.as_ref().map(value)).collect();
        for (value, tensor) in values.iter_mut().zip(&graph.tensors).filter(|(_, tensor)| tensor.fact.is_variable) {
            let shape = tensor.fact.shape.clone().expect("a variable has a shape");
            let first = Value::zeroed(tensor.fact.data_type, shape.clone());
            let bytes = vec![tensor.fact.first_byte(); first.bytes().len()];
            *value = Some(Value::new(tensor.fact.data_type, shape, &bytes));
        }
        for (id, input) in graph.inputs.iter().zip(inputs) {
            values[id.index()] = Some(input.clone());
        }
        Self { graph, values, refusals: Vec::new() }
    }

    fn run(mut self, runtime: Runtime) -> Result<(Vec<Value>, Vec<String>), String> {
        for node in &self.graph.nodes {
            let made = match runtime {
                Runtime::Cpu => self.eval(node),
                Runtime::Primitives => self.interpret(node),
            };
            let made = made.map_err(|error| format!("{}: {error}", node.op.name()))?;
            for (id, value) in node.outputs.iter().zip(made) {
                self.values[id.index()] = Some(value);
            }
        }
        let output = |id: &attache_graph::TensorId| self.values[id.index()].clone().ok_or("an output is never made");
        Ok((self.graph.outputs.iter().map(output).collect::<Result<_, _>>()?, self.refusals))
    }

    fn inputs(&self, node: &Node) -> Vec<Option<&Value>> {
        let value = |id: attache_graph::TensorId| self.values[id.index()].as_ref().expect("made before it is read");
        node.inputs.iter().map(|id| id.map(value)).collect()
    }

    /// Infers the types and shapes of a node's outputs, from the input values where the shapes depend on
    /// them.
    fn infer(&self, node: &Node) -> Result<Vec<Inferred>, OpError> {
        let inferred = node.op.infer(&self.graph.input_facts(node))?;
        if inferred.iter().all(|output| output.shape.is_some()) {
            return Ok(inferred);
        }
        let inputs = self.inputs(node);
        let fact = |(id, value): (&Option<TensorId>, Option<&Value>)| {
            let quantization = self.graph.fact((*id)?).quantization.clone();
            Some(Fact { quantization, ..Fact::constant(value?.constant()) })
        };
        let facts: Vec<_> = node.inputs.iter().zip(inputs).map(fact).collect();
        node.op.infer(&facts.iter().map(Option::as_ref).collect::<Vec<_>>())
    }

    fn eval(&mut self, node: &Node) -> Result<Vec<Value>, OpError> {
        let inferred = self.infer(node)?;
        let make = |output: &Inferred| {
            let mut value = Value::zeroed(output.data_type, output.shape.clone().expect("a shape known at run time"));
            value.bytes_mut().fill(0xff); // an operator must write every element
            value
        };
        let mut made: Vec<Value> = inferred.iter().map(make).collect();
        let inputs = node.inputs.iter().zip(self.inputs(node)).map(|(id, value)| {
            let (value, fact) = (value?, self.graph.fact((*id)?));
            let (is_constant, quantization) = (fact.constant.is_some(), fact.quantization.as_ref());
            let Value { data_type, shape, .. } = value;
            Some(TensorRef { data_type: *data_type, shape, bytes: value.bytes(), quantization, is_constant })
        });
        let inputs: Vec<_> = inputs.collect();
        let (memory, mut states) = (Memory::default(), States::default());
        let (mut cache, mut before) = (memory.cache(), None);
        // The node is evaluated three times, the second time with the data that the operator cached in the first, the
        // third time with these data as they are read back from a file.
        for round in 0..3 {
            if round == 2 {
                (cache, before) = (memory.cache(), Some(made.clone()));
            }
            let outputs = made.iter_mut().zip(&inferred).zip(&node.outputs).map(|((value, output), id)| TensorMut {
                data_type: output.data_type,
                shape: output.shape.as_ref().expect("a shape known at run time"),
                bytes: value.bytes_mut(),
                quantization: self.graph.fact(*id).quantization.as_ref(),
            });
            let (inputs, outputs) = (inputs.clone(), outputs.collect());
            let (cache, parallel, host) = (&mut cache, &Serial, &mut states);
            node.op.eval(&mut Eval { inputs, outputs, cache, parallel, host })?;
        }
        if let Some(before) = before.filter(|_| memory.found() > 0) {
            assert!(made.iter().zip(&before).all(|(made, before)| made.bytes() == before.bytes()), "stored weights");
        }
        for (input, bytes) in states.0 {
            let id = node.inputs[input].expect("a state is an input");
            let Fact { data_type, shape, .. } = self.graph.fact(id);
            self.values[id.index()] =
                Some(Value::new(*data_type, shape.clone().expect("a variable has a shape"), &bytes));
        }
        Ok(made)
    }

    fn interpret(&mut self, node: &Node) -> Result<Vec<Value>, OpError> {
        // Constant folding removes a node whose value follows from shapes, so it is never lowered.
        if node.op.value_of_shapes(&self.graph.input_facts(node)).is_some() {
            return self.eval(node);
        }
        let lowered = match Lowering::lower(self.graph, node, Quantized::Exact) {
            Ok(lowered) => lowered,
            Err(refusal) => {
                self.refusals.push(format!("{}: {refusal}", node.op.name()));
                return self.eval(node);
            }
        };
        let (program, inputs) = (&lowered.program, self.inputs(node));
        let scalars = program.inputs.iter().map(|id| program.value(*id).scalar);
        let tensors = lowered.reads.iter().zip(scalars).map(|(read, scalar)| inputs[*read].unwrap().tensor(scalar));
        let tensors: Vec<_> = tensors.collect();
        let made = interpret(program, &tensors).map_err(|error| OpError::invalid(error.to_string()))?;
        let states = lowered.states.iter().map(|input| node.inputs[*input].expect("a variable is there"));
        let ids: Vec<TensorId> = node.outputs.iter().copied().chain(states).collect();
        let values = made.iter().zip(&program.outputs).zip(&ids);
        let mut values: Vec<Value> = values
            .map(|((tensor, id), output)| {
                Value::from_tensor(self.graph.fact(*output).data_type, program.value(*id).scalar, tensor)
            })
            .collect();
        let states = values.split_off(node.outputs.len());
        for (id, value) in ids[node.outputs.len()..].iter().zip(states) {
            self.values[id.index()] = Some(value);
        }
        Ok(values)
    }
}

/// Returns the largest error of an element divided by `scale`, or a description of the mismatch. Tensors of
/// types other than float32 and complex64 must be equal.
fn compare(actual: &Value, expected: &Value, scale: f32) -> Result<f32, String> {
    if (actual.data_type, &actual.shape) != (expected.data_type, &expected.shape) {
        let (made, wanted) = (&actual.shape, &expected.shape);
        return Err(format!("{} {made} where {} {wanted} belongs", actual.data_type, expected.data_type));
    }
    if !matches!(actual.data_type, DataType::Float32 | DataType::Complex64) {
        let same = actual.bytes() == expected.bytes();
        return if same { Ok(0.0) } else { Err("other elements than expected".into()) };
    }
    let [actual, expected] = [actual, expected].map(|value| bytemuck::cast_slice::<u8, f32>(value.bytes()));
    let mut worst = 0f32;
    for (index, (a, e)) in actual.iter().zip(expected.iter()).enumerate() {
        let same = a == e || (a.is_nan() && e.is_nan());
        let error = if same { 0.0 } else { (a - e).abs() / scale.max(f32::MIN_POSITIVE) };
        if error.is_nan() || error > TOLERANCE {
            return Err(format!("{a} where {e} belongs at {index} (scale {scale})"));
        }
        worst = worst.max(error);
    }
    Ok(worst)
}

/// A golden case: a model with inputs and LiteRT's outputs, as read from its folder.
struct Case {
    name: String,
    operator: String,
    scale: f32,
    graph: Graph,
    inputs: Vec<Value>,
    outputs: Vec<Value>,
}

impl Case {
    fn load(folder: &Path) -> Result<Self, String> {
        let description = std::fs::read(folder.join("case.json")).map_err(|error| error.to_string())?;
        let description: serde_json::Value = serde_json::from_slice(&description).map_err(|error| error.to_string())?;
        let arrays = |stem: &str| -> Result<Vec<Value>, String> {
            let paths = (0..).map(|index| folder.join(format!("{stem}_{index}.npy")));
            paths.take_while(|path| path.exists()).map(|path| npy::read(&path)).collect()
        };
        let (inputs, outputs) = (arrays("in")?, arrays("out")?);
        let model = Model::from_path(folder.join("model.tflite")).map_err(|error| error.to_string())?;
        let shapes: Vec<_> = inputs.iter().map(|input| Some(input.shape.clone())).collect();
        let (mut graph, errors) = attache_ops::import(&model, 0, &shapes, &attache_ops::OpResolver::new());
        // Where it is certain what calls do, the operators of the subgraph take their place.
        if graph.nodes.iter().any(|node| node.op.has_side_effects()) {
            attache_passes::run(&mut graph);
        }
        if let Some(error) = errors.first() {
            return Err(error.to_string());
        }
        graph.validate().map_err(|error| error.to_string())?;
        Ok(Self {
            name: folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            operator: description["op"].as_str().ok_or("case.json names no operator")?.into(),
            scale: description["scale"].as_f64().ok_or("case.json has no scale")? as f32,
            graph,
            inputs,
            outputs,
        })
    }

    /// Whether a node has side effects, as control flow has, or a tensor holds resources or strings. Such cases run
    /// only in the interpreter's tests, and such nodes are not lowered.
    fn needs_interpreter(&self) -> bool {
        let is_unsized = |tensor: &attache_graph::Tensor| tensor.fact.data_type.bits().is_none();
        self.graph.nodes.iter().any(|node| node.op.has_side_effects()) || self.graph.tensors.iter().any(is_unsized)
    }

    /// Runs the case. Returns the largest relative error of an output, and the reasons for which nodes were
    /// not lowered.
    fn run(&self, runtime: Runtime) -> Result<(f32, Vec<String>), String> {
        if self.needs_interpreter() {
            // A value that follows from shapes is computed before anything runs.
            let is_known = |node: &Node| node.op.value_of_shapes(&self.graph.input_facts(node)).is_some();
            let is_left = !self.graph.nodes.iter().all(is_known);
            return Ok((0.0, is_left.then(|| "it needs an interpreter".to_owned()).into_iter().collect()));
        }
        let (made, refusals) = Run::new(&self.graph, &self.inputs).run(runtime)?;
        if made.len() != self.outputs.len() {
            return Err(format!("{} outputs where {} belong", made.len(), self.outputs.len()));
        }
        let mut worst = 0f32;
        for (index, (actual, expected)) in made.iter().zip(&self.outputs).enumerate() {
            let error = compare(actual, expected, self.scale);
            worst = worst.max(error.map_err(|error| format!("output {index}: {error}"))?);
        }
        Ok((worst, refusals))
    }
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder that the variable `ATTACHE_CASES` names, whose cases replace the golden cases.
fn other_cases() -> Option<PathBuf> {
    std::env::var_os("ATTACHE_CASES").map(PathBuf::from)
}

/// Runs every case and prints a summary by operator. Returns, by name of the case, the reasons for which
/// nodes were not lowered. Panics if a case fails.
fn run_all(runtime: Runtime) -> BTreeMap<String, String> {
    let folder = other_cases().unwrap_or_else(|| workspace().join("conformance/cases"));
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    let least = if other_cases().is_some() { 1 } else { 400 };
    assert!(folders.len() >= least, "only {} golden cases in {}", folders.len(), folder.display());
    let (mut summary, mut refused, mut failures) =
        (BTreeMap::<String, (usize, f32)>::new(), BTreeMap::new(), Vec::new());
    for folder in &folders {
        let result = Case::load(folder).and_then(|case| Ok((case.run(runtime)?, case)));
        match result {
            Ok(((error, refusals), case)) => {
                let entry = summary.entry(case.operator).or_default();
                *entry = (entry.0 + 1, entry.1.max(error));
                // Graph passes compute what is constant, so that no device sees it.
                if !refusals.is_empty() && !case.inputs.is_empty() {
                    refused.insert(case.name, refusals.join("; "));
                }
            }
            Err(error) => failures.push(format!("{}: {error}", folder.file_name().unwrap().to_string_lossy())),
        }
    }
    for (operator, (cases, error)) in &summary {
        println!("{operator}: {cases} cases, largest error {error:.1e}");
    }
    println!("{} of {} cases agree", folders.len() - failures.len(), folders.len());
    assert!(failures.is_empty(), "{} cases fail:\n{}", failures.len(), failures.join("\n"));
    refused
}

#[test]
fn the_cpu_agrees_with_every_case() {
    run_all(Runtime::Cpu);
    let read = stored::READ.lock().unwrap();
    let missing: Vec<_> = PackedKind::all().iter().map(|kind| kind.name).filter(|name| !read.contains(name)).collect();
    // No case multiplies by constant matrices of bytes; a test of the interpreter does, of activations of 8 and 16 bits.
    let expected = ["matrices of integers", "16-bit matrices"];
    assert!(missing == expected || other_cases().is_some(), "kinds of which no case stores a value: {missing:?}");
}

#[test]
fn primitives_agree_with_every_case() {
    let refused = run_all(Runtime::Primitives);
    let expected = include_str!("../../../conformance/expectations/gpu_f32.txt").lines();
    let expected: Vec<&str> = expected.filter_map(|line| Some(line.split_once(": ")?.0)).collect();
    if other_cases().is_some() {
        return println!("not lowered: {refused:#?}");
    }
    assert!(refused.keys().eq(&expected), "conformance/expectations/gpu_f32.txt should list: {refused:#?}");
}
