//! Fuzzes operators: infers, evaluates and lowers the node of each golden case with shapes, types, values and
//! quantization parameters replaced at random. Operators may return errors, but must neither panic nor access
//! memory out of bounds. The test detects panics, which include those of Rust's bounds checks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use attache_base::{Bytes, Constant, DataType, Quantization, Serial, Shape, strings};
use attache_graph::{
    Cache, Eval, Fact, Graph, Host, Inferred, Lowering, OpError, PassedTensor, Quantized, TensorMut, TensorRef,
};
use attache_model::Model;

/// Number of random variants of each case. Each variant changes one or two inputs of the original case.
const ROUNDS: usize = 60;
/// Maximum number of elements of a tensor. Nodes with larger tensors are inferred, but not evaluated.
const MOST: usize = 1 << 14;

/// Extents that replace those of shapes; frequent ones are listed twice.
const EXTENTS: [usize; 14] = [0, 1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 16, 1 << 31, usize::MAX / 2];
/// Integers that become elements of tensors. The first nine are small.
const NUMBERS: [i64; 14] = [0, 1, -1, 2, -2, 3, 4, 5, 7, 1 << 20, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN];
/// Element types that replace those of tensors.
const TYPES: [DataType; 7] = [
    DataType::Float32,
    DataType::Int32,
    DataType::Int64,
    DataType::Bool,
    DataType::UInt8,
    DataType::Float16,
    DataType::String,
];

/// Marsaglia's xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Returns a random constant. Half of the constants have small elements only, the others also have
    /// extreme ones. Returns `None` if the constant would be too large, or for types that the test cannot
    /// fill.
    fn constant(&mut self, data_type: DataType, shape: &Shape) -> Option<Constant> {
        let count = shape.checked_elements().filter(|count| *count <= MOST)?;
        if data_type == DataType::String {
            return Some(Constant { data_type, shape: shape.clone(), bytes: Bytes::from_vec(self.strings(count)) });
        }
        let limit = if self.below(2) == 0 { 9 } else { NUMBERS.len() };
        let mut bytes = Vec::new();
        for _ in 0..count {
            let number = NUMBERS[self.below(limit)];
            match data_type.bits()? {
                8 => bytes.push(number as u8 & 1),
                16 => bytes.extend((number as i16).to_le_bytes()),
                32 if data_type == DataType::Float32 => bytes.extend((number as f32).to_le_bytes()),
                32 => bytes.extend((number as i32).to_le_bytes()),
                64 => bytes.extend(number.to_le_bytes()),
                _ => return None,
            }
        }
        // Copies the bytes into a vector of their own. At run time the interpreter guarantees the alignment
        // of tensors; here the allocator provides it.
        let words: Vec<u64> = bytes.chunks(8).map(word).collect();
        let size = bytes.len();
        let bytes = Bytes::from_vec(bytemuck::cast_slice(&words)[..size].to_vec());
        Some(Constant { data_type, shape: shape.clone(), bytes })
    }

    /// Returns the bytes of a tensor with so many strings, which are damaged in a quarter of the calls.
    fn strings(&mut self, count: usize) -> Vec<u8> {
        let texts: Vec<&[u8]> = (0..count).map(|_| self.pick(&[&b""[..], b"a", b"a b  c", b" \0\xff"])).collect();
        let mut bytes = strings::encoded(texts.into_iter()).expect("they are short");
        if self.below(4) == 0 {
            let place = self.below(bytes.len());
            bytes[place] = self.pick(&[0, 1, 4, 127, 255]);
        }
        bytes
    }

    /// Returns random quantization parameters, which may be invalid, or `None` in a quarter of the calls.
    fn quantization(&mut self) -> Option<Quantization> {
        let scale: Vec<f32> = (0..self.below(4)).map(|_| self.pick(&SCALES)).collect();
        let zero_point = scale.iter().map(|_| self.pick(&ZERO_POINTS)).collect();
        let axis = self.pick(&[0, 1, 3, usize::MAX]);
        (self.below(4) > 0).then_some(Quantization { scale, zero_point, axis })
    }

    /// Changes the type, shape or quantization parameters of a tensor at random, and gives it a random
    /// constant value if it had a constant, else in a quarter of the calls.
    fn change(&mut self, fact: &mut Fact) {
        match self.below(5) {
            4 => fact.quantization = self.quantization(),
            0 => fact.data_type = self.pick(&TYPES),
            1 => fact.shape = Some((0..self.below(6)).map(|_| self.pick(&EXTENTS)).collect()),
            2 => {
                if let Some(mut extents) = fact.shape.as_ref().map(|shape| shape.to_vec()).filter(|s| !s.is_empty()) {
                    let axis = self.below(extents.len());
                    extents[axis] = self.pick(&EXTENTS);
                    fact.shape = Some(extents.into());
                }
            }
            _ => {}
        }
        // The import rejects shapes whose size in bytes would overflow, so operators never see them.
        let bytes = fact.shape.as_ref().and_then(Shape::checked_elements).and_then(|count| count.checked_mul(64));
        if bytes.is_none_or(|bytes| bytes > isize::MAX as usize) {
            fact.shape = Some(Shape::default());
        }
        let was_constant = fact.constant.is_some();
        let shape = fact.shape.clone().filter(|_| was_constant || self.below(4) == 0);
        fact.constant = shape.and_then(|shape| self.constant(fact.data_type, &shape));
    }
}

/// Valid and invalid quantization scales.
const SCALES: [f32; 10] = [1.0, 0.5, 0.007, 3e-39, 3e38, 1e-12, 0.0, -1.0, f32::NAN, f32::INFINITY];
/// Zero points, some of which are out of range for every type.
const ZERO_POINTS: [i64; 6] = [0, 127, -128, 255, 1 << 20, i64::MIN];

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

/// A host that has nothing but room for outputs.
#[derive(Default)]
struct NoHost {
    made: Vec<u8>,
}

impl Host for NoHost {
    fn run_subgraph(&mut self, _: usize, _: Vec<PassedTensor>) -> Result<Vec<PassedTensor>, OpError> {
        Err(OpError::unsupported("no subgraphs here"))
    }

    fn make_output(&mut self, _: usize, _: Shape, size: usize) -> Result<&mut [u8], OpError> {
        if size > MOST * 64 {
            return Err(OpError::limit_exceeded("an output is too large for this test"));
        }
        self.made = vec![0; size];
        Ok(&mut self.made)
    }
}

/// Allocates zeroed 64-bit words for a tensor, and returns them with the tensor's size in bytes; `None` if
/// the tensor is too large.
fn room(data_type: DataType, shape: &Shape) -> Option<(Vec<u64>, usize)> {
    let elements = shape.checked_elements().filter(|elements| *elements <= MOST)?;
    let size = if data_type == DataType::String { 0 } else { data_type.byte_size(elements)? };
    Some((vec![0; size.div_ceil(8)], size))
}

/// Evaluates the graph's node on its constants and on random values for its other inputs, after inference
/// succeeded. Returns `None` if a tensor is too large or its shape is unknown.
fn eval(graph: &Graph, inferred: &[Inferred], random: &mut Random) -> Option<Result<(), OpError>> {
    let node = &graph.nodes[0];
    let mut inputs = Vec::new();
    for fact in graph.input_facts(node) {
        let Some(fact) = fact else {
            inputs.push(None);
            continue;
        };
        let shape = fact.shape.as_ref()?;
        let (mut words, mut size) = room(fact.data_type, shape)?;
        let constant = fact.constant.clone().or_else(|| random.constant(fact.data_type, shape));
        if let Some(constant) = constant {
            if fact.data_type == DataType::String {
                size = constant.bytes.len();
                words.resize(size.div_ceil(8), 0);
            }
            bytemuck::cast_slice_mut(&mut words)[..size].copy_from_slice(&constant.bytes[..size]);
        }
        inputs.push(Some((fact, words, size)));
    }
    let mut outputs = Vec::new();
    for (output, id) in inferred.iter().zip(&node.outputs) {
        let shape = output.shape.as_ref()?;
        let quantization = graph.fact(*id).quantization.as_ref();
        outputs.push((output.data_type, shape, quantization, room(output.data_type, shape)?));
    }
    let inputs = inputs.iter().map(|input| {
        let (fact, words, size) = input.as_ref()?;
        Some(TensorRef {
            data_type: fact.data_type,
            shape: fact.shape.as_ref()?,
            bytes: &bytemuck::cast_slice(words)[..*size],
            quantization: fact.quantization.as_ref(),
            is_constant: fact.constant.is_some(),
        })
    });
    let inputs = inputs.collect();
    let outputs = outputs.iter_mut().map(|(data_type, shape, quantization, (words, size))| TensorMut {
        data_type: *data_type,
        shape,
        bytes: &mut bytemuck::cast_slice_mut(words)[..*size],
        quantization: *quantization,
    });
    let (outputs, cache, host) = (outputs.collect(), &mut Cache::default(), &mut NoHost::default());
    Some(node.op.eval(&mut Eval { inputs, outputs, cache, parallel: &Serial, host }))
}

/// Infers, evaluates and lowers the only node of a case [`ROUNDS`] times, each time with other random
/// changes. Returns how many times inference and evaluation succeeded.
fn torment(graph: &Graph, random: &mut Random) -> (usize, usize) {
    let (mut accepted, mut computed) = (0, 0);
    for _ in 0..ROUNDS {
        let mut graph = graph.clone();
        let inputs: Vec<_> = graph.nodes[0].inputs.iter().flatten().map(|id| id.index()).collect();
        for _ in 0..1 + random.below(2) {
            let tensor = random.pick(&inputs);
            random.change(&mut graph.tensors[tensor].fact);
        }
        if random.below(4) == 0 {
            let output = random.pick(&graph.nodes[0].outputs).index();
            graph.tensors[output].fact.quantization = random.quantization();
        }
        let node = &graph.nodes[0];
        // Only this one inference is tested. The interpreter infers a node again once input values are known.
        let Ok(inferred) = node.op.infer(&graph.input_facts(node)) else { continue };
        accepted += 1;
        for (id, output) in node.outputs.clone().iter().zip(&inferred) {
            graph.tensors[id.index()].fact.shape = output.shape.clone();
        }
        if let Some(result) = eval(&graph, &inferred, random) {
            computed += usize::from(result.is_ok());
        }
        for quantized in [Quantized::View, Quantized::Exact] {
            let _ = Lowering::lower(&graph, &graph.nodes[0], quantized);
        }
    }
    (accepted, computed)
}

#[test]
fn nothing_makes_an_operator_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/cases");
    let mut folders: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let (mut random, mut accepted, mut computed, mut panics) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0, Vec::new());
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let model = Model::from_path(folder.join("model.tflite")).unwrap();
        let (graph, _) = attache_ops::import(&model, 0, &[], &attache_ops::OpResolver::new());
        if graph.nodes.len() != 1 || graph.nodes[0].inputs.is_empty() {
            continue;
        }
        match catch_unwind(AssertUnwindSafe(|| torment(&graph, &mut random))) {
            Ok((more, done)) => (accepted, computed) = (accepted + more, computed + done),
            Err(_) => panics.push(folder.file_name().unwrap().to_string_lossy().into_owned()),
        }
    }
    assert!(panics.is_empty(), "these panic: {panics:#?}");
    println!("{accepted} changes were accepted, {computed} computed");
    assert!(accepted > 1000 && computed > 1000, "{accepted} changes were accepted, {computed} computed");
}
