//! Determines how a model is quantized, in TensorFlow Lite's terms: float, or one of the quantization
//! schemes.
//!
//! Each operator is classified by the types of its inputs and outputs, never by its name, and the model by all of its
//! operators. For a model that mixes several schemes, each tensor is listed. Nothing here depends on which operators
//! are implemented.

use std::collections::BTreeMap;

use attache::model::{Operator, QuantizationDetails, Subgraph, Tensor};
use attache::{DataType, Model};
use serde_json::{Value, json};

use crate::console::Console;

/// The quantization scheme of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Floats only.
    Float,
    /// Floats, with 16-bit weights.
    Float16,
    /// Floats, with quantized weights that are dequantized before use.
    WeightOnly,
    /// Floats, with quantized weights. The activations that they are combined with are quantized at run time.
    DynamicRange,
    /// Unsigned 8-bit quantized elements.
    UInt8,
    /// Signed 8-bit quantized elements.
    Int8,
    /// 16-bit quantized elements, with 8-bit weights.
    Int16,
}

impl Kind {
    /// Returns the name of the kind in JSON.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Float16 => "float16_weights",
            Self::WeightOnly => "weight_only",
            Self::DynamicRange => "dynamic_range",
            Self::UInt8 => "uint8",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
        }
    }

    /// Returns TensorFlow Lite's term for a model of this kind.
    fn name(self) -> &'static str {
        match self {
            Self::Float => "float",
            Self::Float16 => "float16 quantization (16-bit weights, float activations)",
            Self::WeightOnly => "weight-only quantization (float activations)",
            Self::DynamicRange => "dynamic range quantization (hybrid: 8-bit weights, float activations)",
            Self::UInt8 => "full integer quantization, uint8",
            Self::Int8 => "full integer quantization, int8",
            Self::Int16 => "full integer quantization, 16-bit activations with 8-bit weights",
        }
    }

    fn is_integer(self) -> bool {
        matches!(self, Self::UInt8 | Self::Int8 | Self::Int16)
    }
}

/// Returns the element type of a float or quantized tensor; `None` for other tensors.
fn numbers(tensor: &Tensor) -> Option<DataType> {
    let is_by_blocks = matches!(tensor.quantization_details, QuantizationDetails::Blockwise { .. });
    let has_scale = is_by_blocks || tensor.quantization.as_ref().is_some_and(|one| !one.scale.is_empty());
    match tensor.data_type {
        DataType::Float16 | DataType::Float32 => Some(tensor.data_type),
        DataType::Int4 | DataType::Int8 | DataType::UInt8 | DataType::Int16 if has_scale => Some(tensor.data_type),
        _ => None,
    }
}

/// Returns the quantization scheme of an operator; `None` if it does no arithmetic on float or quantized
/// tensors, or only converts one type to another.
pub(crate) fn of_operator(subgraph: &Subgraph, operator: &Operator) -> Option<Kind> {
    let tensor = |index: &usize| &subgraph.tensors[*index];
    let is_weight = |tensor: &&Tensor| tensor.constant.is_some();
    let inputs = || operator.inputs.iter().flatten().map(tensor);
    let weights: Vec<DataType> = inputs().filter(is_weight).filter_map(numbers).collect();
    // Variable tensors may be more precise than inputs and outputs.
    let read: Vec<DataType> =
        inputs().filter(|tensor| !is_weight(tensor) && !tensor.is_variable).filter_map(numbers).collect();
    let made: Vec<DataType> = operator.outputs.iter().map(tensor).filter_map(numbers).collect();
    let stored = |data_type: &DataType| *data_type != DataType::Float32;
    let quantized = |data_type: &DataType| !matches!(data_type, DataType::Float16 | DataType::Float32);
    let first = made.first()?;
    match (read.first(), first) {
        (None, _) if weights.iter().any(quantized) && !made.iter().any(quantized) => Some(Kind::WeightOnly),
        (None, _) if weights.contains(&DataType::Float16) => Some(Kind::Float16),
        (Some(from), to) if from != to && weights.is_empty() => None,
        (_, DataType::UInt8) => Some(Kind::UInt8),
        (_, DataType::Int8 | DataType::Int4) => Some(Kind::Int8),
        (_, DataType::Int16) => Some(Kind::Int16),
        _ if read.iter().any(quantized) => None,
        _ if weights.iter().any(quantized) => Some(Kind::DynamicRange),
        _ if weights.iter().chain(&read).any(stored) => Some(Kind::Float16),
        _ => Some(Kind::Float),
    }
}

/// The quantization schemes of all operators of a model, counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kinds {
    /// Number of operators of each kind.
    counts: BTreeMap<Kind, usize>,
    /// Whether the first subgraph has an input of type float32, and whether it has an output of that type.
    float_ends: (bool, bool),
}

impl Kinds {
    pub(crate) fn of(model: &Model) -> Self {
        let mut counts = BTreeMap::new();
        let subgraphs = model.subgraphs().iter();
        let operators = subgraphs.flat_map(|subgraph| subgraph.operators.iter().map(move |one| (subgraph, one)));
        for kind in operators.filter_map(|(subgraph, operator)| of_operator(subgraph, operator)) {
            *counts.entry(kind).or_default() += 1;
        }
        let main = &model.subgraphs()[0];
        let is_float = |index: &usize| main.tensors[*index].data_type == DataType::Float32;
        Self { counts, float_ends: (main.inputs.iter().any(is_float), main.outputs.iter().any(is_float)) }
    }

    /// Whether an operator is of this kind.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        self.counts.contains_key(&kind)
    }

    /// Returns the kind of the whole model; `None` if it mixes several. Quantized weights decide the kind
    /// even if other operators compute in floats.
    fn whole(&self) -> Option<Kind> {
        let mut kinds = self.counts.keys().copied().filter(|kind| *kind != Kind::Float);
        match (kinds.next(), kinds.next()) {
            (None, _) => Some(Kind::Float),
            (Some(kind), None) if kind.is_integer() && self.counts.contains_key(&Kind::Float) => None,
            (Some(kind), None) => Some(kind),
            _ => None,
        }
    }

    /// Describes the kind of the model in one line.
    pub(crate) fn text(&self) -> String {
        let count = |(kind, count): (&Kind, &usize)| format!("{count} {}", kind.word());
        let counts = || self.counts.iter().rev().map(count).collect::<Vec<_>>().join(", ");
        let integers = self.counts.keys().filter(|kind| kind.is_integer()).count();
        match (self.whole(), self.float_ends) {
            (Some(kind), (false, false)) if kind.is_integer() => format!("{} (integer only)", kind.name()),
            (Some(kind), (input, output)) if kind.is_integer() => {
                let ends = [(input, "input"), (output, "output")];
                let ends: Vec<_> = ends.iter().filter(|(is_float, _)| *is_float).map(|(_, end)| *end).collect();
                format!("{} (float {})", kind.name(), ends.join(" and "))
            }
            (Some(kind), _) => kind.name().to_owned(),
            (None, _) if integers == 1 && self.counts.len() == 2 && self.counts.contains_key(&Kind::Float) => {
                format!("integer quantization with float fallback, operators: {}", counts())
            }
            (None, _) => format!("mixed, operators: {}", counts()),
        }
    }

    /// Returns the kind of the model as a JSON object, with the tensors of a mixed model.
    pub(crate) fn json(&self, model: &Model) -> Value {
        let operators: BTreeMap<_, _> = self.counts.iter().map(|(kind, count)| (kind.word(), count)).collect();
        let tensor = |line: &Line| {
            let Line { subgraph, index, tensor, role } = line;
            let data_type = tensor.data_type.name().to_lowercase();
            json!({ "subgraph": subgraph, "index": index, "name": tensor.name, "dtype": data_type, "role": role,
                "scales": scales(tensor) })
        };
        json!({
            "name": self.whole().map_or("mixed", Kind::word),
            "text": self.text(),
            "operators": operators,
            "tensors": self.lines(model).iter().map(tensor).collect::<Vec<_>>(),
        })
    }

    /// Returns the tensors of a mixed model as a table; `None` for other models.
    pub(crate) fn table(&self, console: &Console, model: &Model) -> Option<String> {
        let row = |line: &Line| {
            let Line { subgraph, index, tensor, role } = line;
            let scales = match (tensor.quantization.as_ref(), scales(tensor)) {
                (_, 0) => String::new(),
                (Some(quantization), 1) => {
                    let point = quantization.zero_point.first().copied().unwrap_or(0);
                    format!("scale {}, zero point {point}", quantization.scale[0])
                }
                (_, count) => format!("{count} scales"),
            };
            let label = if *subgraph == 0 { index.to_string() } else { format!("{subgraph}:{index}") };
            let data_type = tensor.data_type.name().to_lowercase();
            vec![label, console.name(&tensor.name), data_type, (*role).to_owned(), scales]
        };
        let rows: Vec<_> = self.lines(model).iter().map(row).collect();
        (!rows.is_empty()).then(|| console.table(&["tensor", "name", "dtype", "role", ""], &rows))
    }

    /// Returns all float and quantized tensors of a mixed model; none for other models.
    fn lines<'a>(&self, model: &'a Model) -> Vec<Line<'a>> {
        if self.whole().is_some() {
            return Vec::new();
        }
        let of = |(index, subgraph): (usize, &'a Subgraph)| {
            let all = subgraph.tensors.iter().enumerate().filter(|(_, tensor)| numbers(tensor).is_some());
            let line =
                move |(number, tensor)| Line { subgraph: index, index: number, tensor, role: role(subgraph, number) };
            all.map(line).collect::<Vec<_>>()
        };
        model.subgraphs().iter().enumerate().flat_map(of).collect()
    }
}

/// A tensor in the list of a mixed model's tensors.
struct Line<'a> {
    subgraph: usize,
    index: usize,
    tensor: &'a Tensor,
    role: &'static str,
}

/// Returns the role of a tensor in its subgraph, e.g. `weights`.
fn role(subgraph: &Subgraph, index: usize) -> &'static str {
    let tensor = &subgraph.tensors[index];
    match () {
        () if tensor.constant.is_some() => "weights",
        () if tensor.is_variable => "state",
        () if subgraph.inputs.contains(&index) => "input",
        () if subgraph.outputs.contains(&index) => "output",
        () => "activation",
    }
}

fn scales(tensor: &Tensor) -> usize {
    tensor.quantization.as_ref().map_or(0, |quantization| quantization.scale.len())
}

#[cfg(test)]
mod tests {
    use DataType::{Float16, Float32, Int8, Int16, Int32, UInt8};
    use attache::model::schema::BuiltinOperator;
    use attache::{Bytes, Constant, ModelBuilder, OperatorBuilder, Quantization, TensorBuilder};

    use super::*;

    fn builder_of(tensor: TensorBuilder, data_type: DataType) -> TensorBuilder {
        let quantization = Quantization { scale: vec![0.5], zero_point: vec![0], axis: 0 };
        let is_float = matches!(data_type, Float16 | Float32);
        if is_float { tensor } else { tensor.quantization(&quantization) }
    }

    /// The types of an operator's weights, if it has any, and of its output.
    type Types = (Option<DataType>, DataType);

    /// Returns a model that is a chain of operators, from an input of type `input`.
    fn model(input: DataType, operators: &[Types]) -> Model {
        let mut builder = ModelBuilder::new("kinds");
        let main = builder.subgraph("main");
        let first = builder.tensor(main, builder_of(TensorBuilder::new("x", input, [2]), input));
        let mut last = first;
        for (weights, made) in operators {
            let weights = weights.map(|data_type| {
                let bytes = Bytes::from_vec(vec![0; data_type.byte_size(2).unwrap()]);
                let constant = Constant { data_type, shape: [2].into(), bytes };
                builder.tensor(main, builder_of(TensorBuilder::constant("w", &constant), data_type))
            });
            let made = builder.tensor(main, builder_of(TensorBuilder::new("y", *made, [2]), *made));
            let inputs: Vec<_> = [Some(last), weights].into_iter().flatten().collect();
            builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, inputs, [made]));
            last = made;
        }
        builder.inputs(main, &[first]).outputs(main, &[last]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    #[test]
    fn models_have_tensorflow_lites_names() {
        let cases: &[(DataType, &[Types], &str, &str)] = &[
            (Float32, &[(Some(Float32), Float32)], "float", "float"),
            (Float32, &[(Some(Float16), Float32)], "float16_weights", "float16 quantization (16"),
            (Float32, &[(Some(Int8), Float32), (None, Float32)], "dynamic_range", "dynamic range quantization (hybrid"),
            (UInt8, &[(Some(UInt8), UInt8)], "uint8", "full integer quantization, uint8 (integer only)"),
            (
                Float32,
                &[(None, Int8), (Some(Int8), Int8), (None, Float32)],
                "int8",
                "full integer quantization, int8 (float input and output)",
            ),
            (UInt8, &[(None, Int8), (Some(Int8), Int8)], "int8", "full integer quantization, int8 (integer only)"),
            (
                Int16,
                &[(Some(Int8), Int16)],
                "int16",
                "full integer quantization, 16-bit activations with 8-bit weights (integer only)",
            ),
            (
                Int8,
                &[(Some(Int8), Int8), (None, Float32), (Some(Float32), Float32)],
                "mixed",
                "integer quantization with float fallback, operators: 1 int8, 1 float",
            ),
            (
                Int8,
                &[(Some(Int8), Int8), (None, Int16), (Some(Int8), Int16)],
                "mixed",
                "mixed, operators: 1 int16, 1 int8",
            ),
        ];
        for (input, operators, name, text) in cases {
            let model = model(*input, operators);
            let kinds = Kinds::of(&model);
            let json = kinds.json(&model);
            assert_eq!(json["name"], *name, "{operators:?}");
            assert!(kinds.text().starts_with(text), "{operators:?}: {}", kinds.text());
            assert_eq!(json["tensors"].as_array().unwrap().is_empty(), *name != "mixed", "{operators:?}");
        }
    }

    #[test]
    fn a_mixed_model_has_its_tensors_listed() {
        let model = model(Int8, &[(Some(Int8), Int8), (None, Float32), (Some(Float32), Float32)]);
        let table = Kinds::of(&model).table(&Console::new(true), &model).unwrap();
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows.len(), 1 + 6);
        assert_eq!(rows[1], ["0", "x", "int8", "input", "scale", "0.5,", "zero", "point", "0"]);
        assert_eq!(rows[2][2..4], ["int8", "weights"]);
        assert_eq!(rows[4][2..], ["float32", "activation"]);
    }

    #[test]
    fn integers_without_a_scale_stand_for_no_reals() {
        let mut builder = ModelBuilder::new("indices");
        let main = builder.subgraph("main");
        let tensors = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, Int32, [2])));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::ADD, [tensors[0]], [tensors[1]]));
        builder.inputs(main, &tensors[..1]).outputs(main, &tensors[1..]);
        let model = Model::from_bytes(builder.finish()).unwrap();
        assert_eq!(Kinds::of(&model).counts, BTreeMap::new());
        assert_eq!(of_operator(&model.subgraphs()[0], &model.subgraphs()[0].operators[0]), None);
    }
}
