//! Post-training quantization of a draft to 8-bit integers. The float model runs on the CPU, and the range of each
//! value determines that value's scale and zero point.
//!
//! Operators follow TensorFlow Lite's quantization specification: the outputs of some have their input's parameters,
//! those of others have fixed parameters, and int8 weights of convolutions have one scale per channel. If an operator
//! requires equal parameters, inputs with other parameters pass through a QUANTIZE. CONCATENATION in uint8 is an
//! exception, because its kernel rescales its inputs. Operators without an 8-bit kernel compute in floats, between
//! DEQUANTIZE and QUANTIZE.

use std::collections::HashMap;
use std::error::Error;

use attache::model::schema::{BuiltinOperator as B, BuiltinOptionsT as O};
use attache::{DataType, Interpreter, Model, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder};

use crate::draft::{Draft, Elements, Id, Kind, Node, Type};
use crate::emit::{self, Written};
use crate::random::Random;

/// How an operator is quantized.
enum Scheme {
    /// The result and all float inputs have the same parameters.
    Shared,
    /// The result has parameters of its own, from its range.
    Own,
    /// The result has a fixed scale and zero point. The zero point is that of int8.
    Fixed(f32, i64),
    /// A contraction with weights, such as a convolution. Int8 weights have one scale per index along this axis.
    Weighted(usize),
    /// The operator has no 8-bit kernel.
    Float,
}

fn scheme(operator: B, is_signed: bool) -> Scheme {
    match operator {
        B::RESHAPE | B::SQUEEZE | B::EXPAND_DIMS | B::PAD | B::PADV2 | B::MIRROR_PAD | B::SLICE | B::STRIDED_SLICE => {
            Scheme::Shared
        }
        B::TRANSPOSE | B::PACK | B::SPLIT | B::UNPACK | B::DEPTH_TO_SPACE | B::SPACE_TO_DEPTH | B::GATHER => {
            Scheme::Shared
        }
        B::TILE | B::REVERSE_V2 | B::BROADCAST_TO | B::MAX_POOL_2D | B::AVERAGE_POOL_2D => Scheme::Shared,
        B::RESIZE_BILINEAR | B::RESIZE_NEAREST_NEIGHBOR | B::REDUCE_MAX | B::REDUCE_MIN | B::SELECT_V2 => {
            Scheme::Shared
        }
        B::MINIMUM | B::MAXIMUM => Scheme::Shared,
        B::CONCATENATION if is_signed => Scheme::Shared,
        B::CONCATENATION | B::ADD | B::SUB | B::MUL | B::RELU | B::RELU6 | B::RELU_N1_TO_1 => Scheme::Own,
        B::HARD_SWISH | B::LEAKY_RELU | B::PRELU | B::MEAN => Scheme::Own,
        B::DIV if !is_signed => Scheme::Own,
        B::SQUARED_DIFFERENCE | B::ABS | B::ELU | B::BATCH_MATMUL | B::RSQRT | B::GELU if is_signed => Scheme::Own,
        B::SOFTMAX | B::LOGISTIC => Scheme::Fixed(1.0 / 256.0, -128),
        B::TANH => Scheme::Fixed(1.0 / 128.0, 0),
        B::CONV_2D | B::FULLY_CONNECTED | B::TRANSPOSE_CONV => Scheme::Weighted(0),
        B::DEPTHWISE_CONV_2D => Scheme::Weighted(3),
        _ => Scheme::Float,
    }
}

/// Scale and zero point of a tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Parameters {
    scale: f32,
    zero_point: i64,
}

/// Index of a tensor in the model, and its quantization parameters if its elements are 8-bit integers.
#[derive(Clone, Copy)]
struct Tensor {
    index: usize,
    parameters: Option<Parameters>,
}

/// Quantizes a draft to int8 if `is_signed`, else to uint8.
pub(crate) fn quantize(draft: &Draft, is_signed: bool) -> Result<Written, Box<dyn Error>> {
    let mut model = ModelBuilder::new("random quantized graph");
    model.subgraph("main");
    let ranges = ranges(draft)?;
    let random = draft.random.clone().fork(1);
    let (tensors, floats) = (HashMap::new(), HashMap::new());
    let mut writer = Writer { draft, model, random, is_signed, ranges, tensors, floats, count: 0 };
    let (mut inputs, mut given) = (Vec::new(), Vec::new());
    for id in emit::inputs(draft) {
        let (tensor, kind, bytes) = writer.input(id);
        inputs.push(tensor);
        given.push((kind, draft.shape(id), bytes));
    }
    for node in &draft.nodes {
        writer.node(node);
    }
    let outputs: Vec<usize> = draft.outputs.iter().map(|id| writer.output(*id)).collect();
    writer.model.inputs(0, &inputs).outputs(0, &outputs);
    Ok(Written { model: writer.model.finish(), inputs: given })
}

/// Minimum and maximum element of each float value. The range is extended to include 0.
fn ranges(draft: &Draft) -> Result<HashMap<Id, [f32; 2]>, Box<dyn Error>> {
    let is_made = |id: &Id| draft.values[*id].kind == Kind::Result && draft.of_type(*id) == Type::Float;
    let made: Vec<Id> = (0..draft.values.len()).filter(is_made).collect();
    let mut ranges = HashMap::new();
    let range = |floats: &[f32]| floats.iter().fold([0.0f32, 0.0], |[a, b], x| [a.min(*x), b.max(*x)]);
    for (id, value) in draft.values.iter().enumerate() {
        if let Some(Elements::Floats(floats)) = &value.elements {
            ranges.insert(id, range(floats));
        }
    }
    if !made.is_empty() {
        let model = Model::from_bytes(emit::model(draft, &made))?;
        let mut interpreter = Interpreter::builder(&model).threads(1).build()?;
        for (index, id) in emit::inputs(draft).into_iter().enumerate() {
            let elements = draft.values[id].elements.as_ref().expect("inputs have elements");
            interpreter.write_bytes(index, &elements.bytes().1)?;
        }
        interpreter.invoke()?;
        for (index, id) in made.into_iter().enumerate() {
            ranges.insert(id, range(interpreter.read::<f32>(index)?));
        }
    }
    Ok(ranges)
}

struct Writer<'a> {
    draft: &'a Draft,
    model: ModelBuilder,
    random: Random,
    is_signed: bool,
    ranges: HashMap<Id, [f32; 2]>,
    /// Tensors written so far, by value. Floats of the draft are quantized.
    tensors: HashMap<Id, Tensor>,
    /// Float tensors written so far, by value.
    floats: HashMap<Id, usize>,
    count: usize,
}

impl Writer<'_> {
    fn data_type(&self) -> DataType {
        if self.is_signed { DataType::Int8 } else { DataType::UInt8 }
    }

    fn name(&mut self, stem: &str) -> String {
        self.count += 1;
        format!("{stem}{}", self.count)
    }

    /// Quantization parameters for a range.
    fn parameters(&self, [least, most]: [f32; 2]) -> Parameters {
        // A smaller range is rounding error around zero. Its scale would lead to rescaling factors that TensorFlow
        // Lite's kernels do not support.
        let most = if most - least > 1e-3 { most } else { least + 1.0 };
        let scale = (most - least) / 255.0;
        let lowest = if self.is_signed { -128 } else { 0 };
        Parameters { scale, zero_point: lowest + (-least / scale).round() as i64 }
    }

    fn stored(&self, floats: &[f32], Parameters { scale, zero_point }: Parameters) -> Vec<u8> {
        let [lowest, highest] = if self.is_signed { [-128, 127] } else { [0, 255] };
        let stored = |float: &f32| ((float / scale).round() as i64 + zero_point).clamp(lowest, highest) as u8;
        floats.iter().map(stored).collect()
    }

    fn add(&mut self, tensor: TensorBuilder) -> usize {
        self.model.tensor(0, tensor)
    }

    fn operator(&mut self, (code, version): (B, i32), inputs: &[usize], outputs: &[usize], options: O) {
        let operator = OperatorBuilder::new(code, inputs.iter().copied(), outputs.iter().copied());
        self.model.operator(0, operator.options(options).version(version));
    }

    /// Adds an 8-bit tensor.
    fn quantized(&mut self, shape: &[usize], parameters: Parameters) -> Tensor {
        let name = self.name("value");
        let tensor = TensorBuilder::new(&name, self.data_type(), shape.to_vec());
        let index = self.add(tensor.quantized(parameters.scale, parameters.zero_point));
        Tensor { index, parameters: Some(parameters) }
    }

    /// Adds a tensor with the type and shape that the value has in the float model.
    fn plain(&mut self, id: Id) -> usize {
        let name = self.name("plain");
        let value = &self.draft.values[id];
        let tensor = TensorBuilder::new(&name, value.of_type.data_type(), value.shape.clone());
        self.add(tensor)
    }

    /// Adds an input. Returns its tensor, NumPy's code for its element type, and its elements. Some float inputs stay
    /// floats and are followed by a QUANTIZE.
    fn input(&mut self, id: Id) -> (usize, &'static str, Vec<u8>) {
        let value = &self.draft.values[id];
        let elements = value.elements.as_ref().expect("inputs have elements");
        let (kind, bytes) = elements.bytes();
        let Elements::Floats(floats) = elements else {
            let index = self.plain(id);
            self.tensors.insert(id, Tensor { index, parameters: None });
            return (index, kind, bytes);
        };
        let parameters = self.parameters(self.ranges[&id]);
        let tensor = self.quantized(&value.shape, parameters);
        self.tensors.insert(id, tensor);
        if self.random.percent(20) {
            let float = self.plain(id);
            self.operator((B::QUANTIZE, 1), &[float], &[tensor.index], O::QuantizeOptions(Default::default()));
            return (float, kind, bytes);
        }
        (tensor.index, if self.is_signed { "|i1" } else { "|u1" }, self.stored(floats, parameters))
    }

    /// The tensor of an output. Some quantized outputs are followed by a DEQUANTIZE.
    fn output(&mut self, id: Id) -> usize {
        let tensor = self.tensor(id);
        if tensor.parameters.is_some() && self.random.percent(20) { self.float(id) } else { tensor.index }
    }

    /// The tensor of a value. A constant is written on first use.
    fn tensor(&mut self, id: Id) -> Tensor {
        if let Some(tensor) = self.tensors.get(&id) {
            return *tensor;
        }
        let value = &self.draft.values[id];
        let tensor = match value.elements.as_ref().expect("what is not made yet is a constant") {
            Elements::Floats(_) => self.constant(id, self.parameters(self.ranges[&id])),
            _ => {
                let index = self.add(emit::tensor(&emit::name(value, id), value));
                Tensor { index, parameters: None }
            }
        };
        self.tensors.insert(id, tensor);
        tensor
    }

    /// Writes a float constant, quantized with these parameters.
    fn constant(&mut self, id: Id, parameters: Parameters) -> Tensor {
        let value = &self.draft.values[id];
        let Some(Elements::Floats(floats)) = &value.elements else { unreachable!("a constant of floats") };
        let stored = self.stored(floats, parameters);
        let name = self.name("constant");
        let tensor = if self.is_signed {
            let signed: Vec<i8> = stored.iter().map(|byte| *byte as i8).collect();
            TensorBuilder::values(&name, value.shape.clone(), &signed)
        } else {
            TensorBuilder::values(&name, value.shape.clone(), &stored)
        };
        let index = self.add(tensor.quantized(parameters.scale, parameters.zero_point));
        Tensor { index, parameters: Some(parameters) }
    }

    /// The value as a float tensor, dequantized if necessary.
    fn float(&mut self, id: Id) -> usize {
        if let Some(float) = self.floats.get(&id) {
            return *float;
        }
        let value = &self.draft.values[id];
        let is_constant = matches!((&value.elements, value.kind), (Some(Elements::Floats(_)), Kind::Constant));
        let float = if is_constant && !self.tensors.contains_key(&id) {
            self.add(emit::tensor(&emit::name(value, id), value))
        } else {
            let tensor = self.tensor(id);
            let float = self.plain(id);
            self.operator((B::DEQUANTIZE, 2), &[tensor.index], &[float], O::DequantizeOptions(Default::default()));
            float
        };
        self.floats.insert(id, float);
        float
    }

    /// The value with these parameters. A constant is quantized with them; another value passes through a QUANTIZE if
    /// its parameters differ.
    fn rescaled(&mut self, id: Id, parameters: Parameters) -> usize {
        let is_constant = self.draft.values[id].kind == Kind::Constant;
        if is_constant {
            return self.constant(id, parameters).index;
        }
        let tensor = self.tensor(id);
        if tensor.parameters == Some(parameters) {
            return tensor.index;
        }
        let shape = self.draft.shape(id);
        let rescaled = self.quantized(&shape, parameters);
        self.operator((B::QUANTIZE, 2), &[tensor.index], &[rescaled.index], O::QuantizeOptions(Default::default()));
        rescaled.index
    }

    fn node(&mut self, node: &Node) {
        let (code, version) = node.operator;
        let is_float = |id: &Id| self.draft.of_type(*id) == Type::Float;
        let makes_floats = node.outputs.iter().all(is_float);
        let reads_floats = node.inputs.iter().any(is_float);
        if !makes_floats && !reads_floats {
            let inputs: Vec<usize> = node.inputs.iter().map(|id| self.tensor(*id).index).collect();
            let outputs: Vec<usize> = node.outputs.iter().map(|id| self.plain_result(*id)).collect();
            return self.operator((code, version), &inputs, &outputs, node.options.clone());
        }
        match scheme(code, self.is_signed) {
            _ if !makes_floats || !reads_floats => self.in_floats(node),
            Scheme::Float => self.in_floats(node),
            Scheme::Shared => self.shared(node),
            Scheme::Own => {
                let parameters = self.parameters(self.ranges[&node.outputs[0]]);
                self.own(node, parameters);
            }
            Scheme::Fixed(scale, zero_point) => {
                let zero_point = if self.is_signed { zero_point } else { zero_point + 128 };
                self.own(node, Parameters { scale, zero_point });
            }
            Scheme::Weighted(axis) => self.weighted(node, axis),
        }
    }

    fn plain_result(&mut self, id: Id) -> usize {
        let index = self.plain(id);
        self.tensors.insert(id, Tensor { index, parameters: None });
        index
    }

    /// Writes the node with float tensors, and quantizes its float results.
    fn in_floats(&mut self, node: &Node) {
        let input = |writer: &mut Self, id: &Id| match writer.draft.of_type(*id) {
            Type::Float => writer.float(*id),
            _ => writer.tensor(*id).index,
        };
        let inputs: Vec<usize> = node.inputs.iter().map(|id| input(self, id)).collect();
        let outputs: Vec<usize> = node.outputs.iter().map(|id| self.plain(*id)).collect();
        self.operator(node.operator, &inputs, &outputs, node.options.clone());
        for (id, plain) in node.outputs.iter().zip(outputs) {
            if self.draft.of_type(*id) != Type::Float {
                self.tensors.insert(*id, Tensor { index: plain, parameters: None });
                continue;
            }
            let parameters = self.parameters(self.ranges[id]);
            let shape = self.draft.shape(*id);
            let tensor = self.quantized(&shape, parameters);
            self.operator((B::QUANTIZE, 1), &[plain], &[tensor.index], O::QuantizeOptions(Default::default()));
            self.tensors.insert(*id, tensor);
        }
    }

    /// Writes a node whose result and float inputs all have the same parameters: those of the non-constant float inputs
    /// if these are equal, else those for the range of the first result.
    fn shared(&mut self, node: &Node) {
        let floats: Vec<Id> = node.inputs.iter().copied().filter(|id| self.draft.of_type(*id) == Type::Float).collect();
        let made: Vec<Id> = floats.iter().copied().filter(|id| self.draft.values[*id].kind != Kind::Constant).collect();
        let known: Vec<Option<Parameters>> = made.iter().map(|id| self.tensor(*id).parameters).collect();
        let parameters = match known.as_slice() {
            [Some(first), rest @ ..] if rest.iter().all(|other| *other == Some(*first)) => *first,
            _ => self.parameters(self.ranges[&node.outputs[0]]),
        };
        let input = |writer: &mut Self, id: &Id| match writer.draft.of_type(*id) {
            Type::Float => writer.rescaled(*id, parameters),
            _ => writer.tensor(*id).index,
        };
        let inputs: Vec<usize> = node.inputs.iter().map(|id| input(self, id)).collect();
        self.finish(node, &inputs, parameters);
    }

    fn own(&mut self, node: &Node, parameters: Parameters) {
        let inputs: Vec<usize> = node.inputs.iter().map(|id| self.tensor(*id).index).collect();
        self.finish(node, &inputs, parameters);
    }

    fn finish(&mut self, node: &Node, inputs: &[usize], parameters: Parameters) {
        let mut outputs = Vec::new();
        for id in &node.outputs {
            let shape = self.draft.shape(*id);
            let tensor = self.quantized(&shape, parameters);
            outputs.push(tensor.index);
            self.tensors.insert(*id, tensor);
        }
        self.operator(node.operator, inputs, &outputs, node.options.clone());
    }

    /// Writes a contraction with quantized data, weights and bias. It computes in floats if the weights are not
    /// constant.
    fn weighted(&mut self, node: &Node, axis: usize) {
        let [data, weights] = if node.operator.0 == B::TRANSPOSE_CONV { [2, 1] } else { [0, 1] };
        let is_known = self.draft.values[node.inputs[weights]].kind == Kind::Constant;
        if !is_known {
            return self.in_floats(node);
        }
        let source = self.tensor(node.inputs[data]).parameters.expect("the data are floats");
        let (filter, scales) = self.weights(node.inputs[weights], axis);
        let mut inputs = Vec::new();
        for (input, id) in node.inputs.iter().enumerate() {
            inputs.push(match input {
                _ if input == weights => filter,
                _ if self.draft.of_type(*id) == Type::Float && input != data => self.bias(*id, source.scale, &scales),
                _ => self.tensor(*id).index,
            });
        }
        let parameters = self.parameters(self.ranges[&node.outputs[0]]);
        self.finish(node, &inputs, parameters);
    }

    /// Writes weights: in int8 symmetric with one scale per channel, in uint8 with one scale and zero point. Returns
    /// the tensor and the scales.
    fn weights(&mut self, id: Id, axis: usize) -> (usize, Vec<f32>) {
        let value = &self.draft.values[id];
        let Some(Elements::Floats(floats)) = &value.elements else { unreachable!("weights are constant floats") };
        if !self.is_signed {
            let parameters = self.parameters(self.ranges[&id]);
            return (self.constant(id, parameters).index, vec![parameters.scale]);
        }
        let inner: usize = value.shape[axis + 1..].iter().product();
        let channel = |element: usize| element / inner % value.shape[axis];
        let mut scales = vec![1e-3f32; value.shape[axis]];
        for (element, float) in floats.iter().enumerate() {
            scales[channel(element)] = scales[channel(element)].max(float.abs());
        }
        scales.iter_mut().for_each(|scale| *scale /= 127.0);
        let stored =
            |(element, float): (usize, &f32)| (float / scales[channel(element)]).round().clamp(-127.0, 127.0) as i8;
        let stored: Vec<i8> = floats.iter().enumerate().map(stored).collect();
        let name = self.name("weights");
        let zero_point = vec![0; scales.len()];
        let tensor = TensorBuilder::values(&name, value.shape.clone(), &stored);
        let index = self.add(tensor.quantization(&Quantization { scale: scales.clone(), zero_point, axis }));
        (index, scales)
    }

    /// Writes a 32-bit bias, whose scale is the product of the scales of the data and the weights.
    fn bias(&mut self, id: Id, source: f32, scales: &[f32]) -> usize {
        let value = &self.draft.values[id];
        let Some(Elements::Floats(floats)) = &value.elements else { unreachable!("biases are constant floats") };
        let steps: Vec<f32> = scales.iter().map(|scale| scale * source).collect();
        let step = |element: usize| steps[element.min(steps.len() - 1)];
        let stored: Vec<i32> =
            floats.iter().enumerate().map(|(element, float)| (float / step(element)).round() as i32).collect();
        let name = self.name("bias");
        let zero_point = vec![0; steps.len()];
        let tensor = TensorBuilder::values(&name, value.shape.clone(), &stored);
        self.add(tensor.quantization(&Quantization { scale: steps, zero_point, axis: 0 }))
    }
}
