//! What an operator's GPU form sees: its inputs as values of a program that it extends.

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{Expression, Primitive, Program, Scalar, ValueId, Whole};

use crate::{Fact, Graph, Node, Refusal};

mod view;

pub use view::Grid;

/// What a device makes of quantized tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quantized {
    /// Reals that are kept on the grid of their scale and zero point: each operator computes on what its inputs stand for,
    /// and what it makes is rounded to numbers that can be stored.
    #[default]
    View,
    /// The stored integers, in the arithmetic of TensorFlow Lite's reference kernels.
    Exact,
}

/// A node's work as primitives.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The primitives. Its inputs are those of the node's inputs that `reads` names, its outputs are the node's.
    pub program: Program,
    /// Indices of the node's inputs that the program reads, in the order of the program's inputs.
    pub reads: Vec<usize>,
}

/// What is known of a node's inputs and outputs.
type Facts<'a> = (Vec<Option<&'a Fact>>, Vec<&'a Fact>);

/// Builds a node's [`Lowered`] form.
pub struct Lowering<'a> {
    inputs: Vec<Option<&'a Fact>>,
    outputs: Vec<&'a Fact>,
    stored: Facts<'a>,
    program: Program,
    reads: Vec<usize>,
    values: Vec<Option<ValueId>>,
    made: Vec<Option<ValueId>>,
}

impl<'a> Lowering<'a> {
    /// The node's work as primitives, or why it has none.
    pub fn lower(graph: &Graph, node: &Node, quantized: Quantized) -> Result<Lowered, Refusal> {
        match quantized {
            Quantized::View => view::lower(graph, node),
            Quantized::Exact => {
                let facts = facts(graph, node);
                Lowering::of(node, facts.clone(), facts)
            }
        }
    }

    /// The node's work on tensors of which this is known, and that are stored like that.
    fn of(node: &Node, (inputs, outputs): Facts<'a>, stored: Facts<'a>) -> Result<Lowered, Refusal> {
        let (values, made) = (vec![None; inputs.len()], vec![None; outputs.len()]);
        let (program, reads) = (Program::default(), Vec::new());
        let mut lowering = Lowering { inputs, outputs, stored, program, reads, values, made };
        node.op.lower(&mut lowering)?;
        lowering.finish()
    }

    fn finish(mut self) -> Result<Lowered, Refusal> {
        for (index, (made, fact)) in self.made.iter().zip(&self.outputs).enumerate() {
            let id = made.ok_or_else(|| Refusal::new(format!("its GPU form makes no output {index}")))?;
            let stated = (made_scalar(fact.data_type)?, known(fact)?);
            let value = self.program.value(id);
            // Places in a window are integers in a tensor that files call float: only their bits count.
            let same_scalar = value.scalar == stated.0 || value.scalar == Scalar::I32;
            if !same_scalar || &value.shape != stated.1 {
                return Err(Refusal::new(format!("its GPU form makes {}, not {}", value.shape, stated.1)));
            }
            self.program.hold(id, fact.data_type);
            self.program.outputs.push(id);
        }
        Ok(Lowered { program: self.program, reads: self.reads })
    }

    /// Whether an input is there.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Number of inputs, those left out included.
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// What is known about an input that must be there.
    pub fn input_fact(&self, index: usize) -> Result<&'a Fact, Refusal> {
        self.inputs.get(index).copied().flatten().ok_or_else(|| Refusal::new(format!("input {index} is missing")))
    }

    /// The shape of an input, which must be known.
    pub fn input_shape(&self, index: usize) -> Result<&'a Shape, Refusal> {
        known(self.input_fact(index)?)
    }

    /// What is known about an output: of a quantized one that is seen as reals, that it holds floats.
    pub fn output_fact(&self, index: usize) -> Result<&'a Fact, Refusal> {
        self.outputs.get(index).copied().ok_or_else(|| Refusal::new(format!("there is no output {index}")))
    }

    /// What the graph says of an input, how it is stored included, whether it is seen as reals or not.
    pub fn stored_input(&self, index: usize) -> Result<&'a Fact, Refusal> {
        self.stored.0.get(index).copied().flatten().ok_or_else(|| Refusal::new(format!("input {index} is missing")))
    }

    /// What the graph says of an output, how it is stored included, whether it is seen as reals or not.
    pub fn stored_output(&self, index: usize) -> Result<&'a Fact, Refusal> {
        self.stored.1.get(index).copied().ok_or_else(|| Refusal::new(format!("there is no output {index}")))
    }

    /// The shape of an output, which must be known.
    pub fn output_shape(&self, index: usize) -> Result<&'a Shape, Refusal> {
        known(self.output_fact(index)?)
    }

    /// The integers of an input whose value must be known: axes, paddings, sizes.
    pub fn integers(&self, index: usize) -> Result<Vec<i64>, Refusal> {
        let constant = self.input_fact(index)?.constant.as_ref();
        let constant = constant.ok_or_else(|| Refusal::new(format!("input {index} is not constant")))?;
        constant.integers().ok_or_else(|| Refusal::new(format!("input {index} does not hold integers")))
    }

    /// An input as a value: a constant where its value is known.
    pub fn input(&mut self, index: usize) -> Result<ValueId, Refusal> {
        if let Some(id) = self.values.get(index).copied().flatten() {
            return Ok(id);
        }
        let fact = self.input_fact(index)?;
        let scalar = if fact.constant.is_some() { made_scalar(fact.data_type)? } else { scalar(fact.data_type)? };
        let shape = known(fact)?.clone();
        let id = match &fact.constant {
            Some(constant) => self.program.constant(scalar, constant.clone()),
            None => {
                self.reads.push(index);
                self.program.input(scalar, shape)
            }
        };
        self.program.hold(id, fact.data_type);
        self.values[index] = Some(id);
        Ok(id)
    }

    /// An input that holds integers whatever the file calls it, as a value that must come from a node.
    pub fn integer_input(&mut self, index: usize) -> Result<ValueId, Refusal> {
        let fact = self.input_fact(index)?;
        if fact.constant.is_some() || fact.data_type.bits() != Some(32) {
            return Err(Refusal::new(format!("input {index} is not made by the operator that it belongs to")));
        }
        self.reads.push(index);
        Ok(self.program.input(Scalar::I32, known(fact)?.clone()))
    }

    /// An input as real numbers, whatever it holds: integers of any width are read as what they stand for.
    pub fn real_input(&mut self, index: usize) -> Result<ValueId, Refusal> {
        let fact = self.input_fact(index)?;
        if fact.constant.is_some() || made_scalar(fact.data_type)? == Scalar::F32 {
            return self.input(index);
        }
        self.reads.push(index);
        Ok(self.program.input(Scalar::F32, known(fact)?.clone()))
    }

    /// An input that must hold floats, as a value.
    pub fn float_input(&mut self, index: usize) -> Result<ValueId, Refusal> {
        use DataType::{Float32, Int4, Int8, Int16, UInt8};
        let is_float = |fact: &&Fact| fact.data_type == Float32;
        match self.input_fact(index)?.data_type {
            Float32 => self.input(index),
            Int4 | Int8 | UInt8 | Int16 if self.inputs.iter().flatten().any(is_float) => Err(Refusal::new(
                "its floats become integers at run time, by quotients that a device rounds in its own way",
            )),
            Int4 | Int8 | UInt8 | Int16 => Err(Refusal::new("it has no form of integers")),
            other => Err(Refusal::new(format!("input {index} of type {other} is not supported"))),
        }
    }

    /// The value of a constant.
    pub fn constant(&mut self, constant: Constant) -> Result<ValueId, Refusal> {
        let scalar = scalar(constant.data_type)?;
        Ok(self.program.constant(scalar, constant))
    }

    /// The value of a constant that keeps every digit, whatever a device stores reals as.
    pub fn precise_constant(&mut self, constant: Constant) -> Result<ValueId, Refusal> {
        let id = self.constant(constant)?;
        self.program.values[id.index()].is_inner = true;
        Ok(id)
    }

    /// The shape of a value.
    pub fn shape(&self, id: ValueId) -> &Shape {
        self.program.shape(id)
    }

    /// The value as a constant, where it is one.
    pub fn constant_of(&self, id: ValueId) -> Option<&Constant> {
        match &self.program.value(id).source {
            attache_gpu_ir::Source::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// Emits a primitive; its first output.
    pub fn emit(&mut self, primitive: Primitive, inputs: &[ValueId]) -> Result<ValueId, Refusal> {
        Ok(self.emit_all(primitive, inputs)?[0])
    }

    /// Emits a primitive; all its outputs.
    pub fn emit_all(&mut self, primitive: Primitive, inputs: &[ValueId]) -> Result<Vec<ValueId>, Refusal> {
        Ok(self.program.step(primitive, inputs, 0)?)
    }

    /// Emits a map to integers over inputs broadcast to `shape`: truth as 1 and 0, numbers rounded towards zero.
    pub fn integer_map(
        &mut self,
        expression: Expression,
        shape: &Shape,
        inputs: &[ValueId],
    ) -> Result<ValueId, Refusal> {
        self.emit(Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::I32 }, inputs)
    }

    /// Emits a map of integers over inputs broadcast to `shape`.
    pub fn whole_map(&mut self, expression: Whole, shape: &Shape, inputs: &[ValueId]) -> Result<ValueId, Refusal> {
        if expression == Whole::Input(0) && inputs.len() == 1 && self.shape(inputs[0]) == shape {
            return Ok(inputs[0]);
        }
        self.emit(Primitive::WholeMap { expression, shape: shape.clone() }, inputs)
    }

    /// Emits a map over inputs broadcast to `shape`.
    pub fn map(&mut self, expression: Expression, shape: &Shape, inputs: &[ValueId]) -> Result<ValueId, Refusal> {
        let same = |id: ValueId| self.shape(id) == shape && self.program.value(id).scalar == Scalar::F32;
        if expression.is_identity() && inputs.len() == 1 && same(inputs[0]) {
            return Ok(inputs[0]);
        }
        self.emit(Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 }, inputs)
    }

    /// Emits a reshape where the shape differs.
    pub fn reshape(&mut self, id: ValueId, shape: &Shape) -> Result<ValueId, Refusal> {
        if self.shape(id) == shape { Ok(id) } else { self.emit(Primitive::Reshape(shape.clone()), &[id]) }
    }

    /// States that a value is one of the node's outputs.
    pub fn output(&mut self, index: usize, id: ValueId) -> Result<(), Refusal> {
        *self.made.get_mut(index).ok_or_else(|| Refusal::new(format!("there is no output {index}")))? = Some(id);
        Ok(())
    }
}

fn facts<'a>(graph: &'a Graph, node: &Node) -> Facts<'a> {
    (graph.input_facts(node), node.outputs.iter().map(|id| graph.fact(*id)).collect())
}

fn known(fact: &Fact) -> Result<&Shape, Refusal> {
    match &fact.shape {
        Some(shape) if shape.elements() == 0 => Err(Refusal::new("a tensor has no elements")),
        Some(shape) => Ok(shape),
        None => Err(Refusal::new("a tensor's shape is known only at run time")),
    }
}

fn scalar(data_type: DataType) -> Result<Scalar, Refusal> {
    match data_type {
        // Binary16 is read as what it stands for; the device decides how to store it.
        DataType::Float32 | DataType::Float16 => Ok(Scalar::F32),
        DataType::Int32 | DataType::Int16 | DataType::Int8 | DataType::UInt8 | DataType::Bool => Ok(Scalar::I32),
        other => Err(Refusal::new(format!("tensors of type {other} are not supported"))),
    }
}

/// As [`scalar`], for what is known beforehand or made by the node: of 64-bit integers a device can hold places and
/// axes, but not whatever may come in at a run.
fn made_scalar(data_type: DataType) -> Result<Scalar, Refusal> {
    if data_type == DataType::Int64 { Ok(Scalar::I32) } else { scalar(data_type) }
}
