//! Lowering: the interface through which an operator emits its GPU primitives. [`Lowering`] gives the
//! operator the facts of its inputs and outputs and collects the primitives in a [`Program`]; the result is
//! [`Lowered`].

use std::fmt;

use attache_base::{Constant, DataType, Shape};
use attache_gpu_ir::{Expression, IntExpression, Primitive, Program, Scalar, ValueId};

use crate::{Fact, Graph, Node, Unsupported};

mod stored;
mod view;

pub use view::AffineParameters;

/// How the GPU computes with quantized tensors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Quantized {
    /// Quantized tensors are computed as floats: constants are dequantized, operators compute on the floats
    /// that the quantized elements represent, and each output is rounded to the values that its scale and
    /// zero point can represent.
    #[default]
    View,
    /// Quantized tensors are computed as the stored integers, in the arithmetic of TensorFlow Lite's
    /// reference kernels, with bit-exact results.
    Exact,
}

/// A node lowered to primitives.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// The primitives. The program's inputs are the node's inputs listed in `reads`, its outputs are all
    /// outputs of the node in their order, then the new values of the variables listed in `states`.
    pub program: Program,
    /// Indices of the node's inputs that the program reads, in the order of the program's inputs. Constant
    /// inputs are not listed, since they are values of the program.
    pub reads: Vec<usize>,
    /// Indices of the node's inputs that are variables and get new values, in the order of the program's last outputs.
    pub states: Vec<usize>,
}

/// Facts of a node's inputs (`None` for an optional input that is left out) and of its outputs.
type Facts<'a> = (Vec<Option<&'a Fact>>, Vec<&'a Fact>);

/// The lowering of one node in progress. The node's operator emits primitives through its methods.
pub struct Lowering<'a> {
    inputs: Vec<Option<&'a Fact>>,
    outputs: Vec<&'a Fact>,
    stored: Facts<'a>,
    /// The facts of inputs and outputs as the node's program has them at its border.
    border: Facts<'a>,
    program: Program,
    reads: Vec<usize>,
    values: Vec<Option<ValueId>>,
    made: Vec<Option<ValueId>>,
    /// The new values of variables, by the index of the input.
    states: Vec<(usize, ValueId)>,
    quantized: Quantized,
}

impl fmt::Debug for Lowering<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lowering").field("inputs", &self.inputs).field("outputs", &self.outputs).finish_non_exhaustive()
    }
}

impl<'a> Lowering<'a> {
    /// Lowers a node of the graph to primitives, with quantized tensors computed as `quantized` says.
    ///
    /// # Errors
    ///
    /// Fails with the reason if the operator, its attributes or its tensors are not supported on a GPU, or if the program
    /// was built without GPU forms.
    pub fn lower(graph: &Graph, node: &Node, quantized: Quantized) -> Result<Lowered, Unsupported> {
        if cfg!(not(feature = "lowering")) {
            let text = "the program was built without GPU forms (the feature \"lowering\" of the crate attache)";
            return Err(Unsupported::new(text));
        }
        graph.check_no_strings(node)?;
        match quantized {
            Quantized::View => view::lower(graph, node),
            Quantized::Exact => {
                let facts = facts(graph, node);
                Lowering::of(node, facts.clone(), facts, quantized)
            }
        }
    }

    /// Lowers a node. The operator gets the facts `inputs` and `outputs`, in which quantized tensors may be
    /// floats; `stored` are the facts as the graph states them.
    fn of(
        node: &Node,
        (inputs, outputs): Facts<'a>,
        stored: Facts<'a>,
        quantized: Quantized,
    ) -> Result<Lowered, Unsupported> {
        let (values, made) = (vec![None; inputs.len()], vec![None; outputs.len()]);
        let (program, reads) = (Program::default(), Vec::new());
        let (border, states) = ((inputs.clone(), outputs.clone()), Vec::new());
        let mut lowering =
            Lowering { inputs, outputs, stored, border, program, reads, values, made, states, quantized };
        node.op.lower(&mut lowering)?;
        lowering.finish()
    }

    fn finish(mut self) -> Result<Lowered, Unsupported> {
        for (index, made) in std::mem::take(&mut self.made).into_iter().enumerate() {
            let id = made.ok_or_else(|| Unsupported::new(format!("its GPU form makes no output {index}")))?;
            let (id, fact) = (self.at_border(index, id)?, self.border.1[index]);
            let stated = match fact.data_type {
                DataType::Complex64 => (Scalar::F32, pairs(known(fact)?)),
                data_type => (made_scalar(data_type)?, known(fact)?.clone()),
            };
            let value = self.program.value(id);
            // Argmax pooling stores integer indices in an output that the model file declares as float. Its
            // value is of integers, and the bits are stored unchanged.
            let same_scalar = value.scalar == stated.0 || value.scalar == Scalar::I32;
            if !same_scalar || value.shape != stated.1 {
                return Err(Unsupported::new(format!("its GPU form makes {}, not {}", value.shape, stated.1)));
            }
            self.program.store_as(id, fact.data_type);
            self.program.outputs.push(id);
        }
        for (input, id) in &self.states {
            self.program.store_as(*id, self.input_fact(*input)?.data_type);
            self.program.outputs.push(*id);
        }
        let states = self.states.into_iter().map(|(input, _)| input).collect();
        Ok(Lowered { program: self.program, reads: self.reads, states })
    }

    /// Returns how quantized tensors are computed.
    #[must_use]
    pub fn quantized(&self) -> Quantized {
        self.quantized
    }

    /// Whether the node has an input with this index that is not left out.
    pub fn has_input(&self, index: usize) -> bool {
        self.inputs.get(index).is_some_and(Option::is_some)
    }

    /// Returns the number of inputs of the node, including optional ones that are left out.
    #[must_use]
    pub fn input_count(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the fact of a required input. In [`Quantized::View`] a quantized tensor is of type `FLOAT32`.
    ///
    /// # Errors
    ///
    /// Fails where the input is missing.
    pub fn input_fact(&self, index: usize) -> Result<&'a Fact, Unsupported> {
        self.inputs.get(index).copied().flatten().ok_or_else(|| Unsupported::new(format!("input {index} is missing")))
    }

    /// Returns the shape of a required input.
    ///
    /// # Errors
    ///
    /// Fails where the input is missing, its shape is not known or it has no elements.
    pub fn input_shape(&self, index: usize) -> Result<&'a Shape, Unsupported> {
        known(self.input_fact(index)?)
    }

    /// Returns the fact of an output. In [`Quantized::View`] a quantized tensor is of type `FLOAT32`.
    ///
    /// # Errors
    ///
    /// Fails where there is no such output.
    pub fn output_fact(&self, index: usize) -> Result<&'a Fact, Unsupported> {
        self.outputs.get(index).copied().ok_or_else(|| Unsupported::new(format!("there is no output {index}")))
    }

    /// Returns the fact of a required input as the graph states it, with its quantized type even in
    /// [`Quantized::View`].
    ///
    /// # Errors
    ///
    /// Fails where the input is missing.
    pub fn stored_input(&self, index: usize) -> Result<&'a Fact, Unsupported> {
        self.stored.0.get(index).copied().flatten().ok_or_else(|| Unsupported::new(format!("input {index} is missing")))
    }

    /// Returns the fact of an output as the graph states it, with its quantized type even in
    /// [`Quantized::View`].
    ///
    /// # Errors
    ///
    /// Fails where there is no such output.
    pub fn stored_output(&self, index: usize) -> Result<&'a Fact, Unsupported> {
        self.stored.1.get(index).copied().ok_or_else(|| Unsupported::new(format!("there is no output {index}")))
    }

    /// Returns the shape of an output.
    ///
    /// # Errors
    ///
    /// Fails where there is no such output, its shape is not known or it has no elements.
    pub fn output_shape(&self, index: usize) -> Result<&'a Shape, Unsupported> {
        known(self.output_fact(index)?)
    }

    /// Returns the elements of a constant integer input, such as axes, paddings or sizes.
    ///
    /// # Errors
    ///
    /// Fails where the input is missing, not constant or not of an integer type.
    pub fn integers(&self, index: usize) -> Result<Vec<i64>, Unsupported> {
        let constant = self.input_fact(index)?.constant.as_ref();
        let constant = constant.ok_or_else(|| Unsupported::new(format!("input {index} is not constant")))?;
        constant.integers().ok_or_else(|| Unsupported::new(format!("input {index} does not hold integers")))
    }

    /// Returns the value of the program that represents an input of the node. The first call for an input
    /// adds it to the program, as a constant if the input is constant and as an input of the program
    /// otherwise.
    ///
    /// # Errors
    ///
    /// Fails where the input is missing, its shape is not known, it has no elements, or its type is not supported.
    pub fn input(&mut self, index: usize) -> Result<ValueId, Unsupported> {
        if let Some(id) = self.values.get(index).copied().flatten() {
            return Ok(id);
        }
        if let Some(id) = self.stored_value(index, Scalar::I32)? {
            self.values[index] = Some(id);
            return Ok(id);
        }
        let fact = self.input_fact(index)?;
        let scalar = if fact.constant.is_some() { made_scalar(fact.data_type)? } else { scalar(fact.data_type)? };
        let shape = known(fact)?.clone();
        let id = match &fact.constant {
            Some(constant) if constant.data_type == DataType::UInt32 => {
                self.program.constant(scalar, Constant { data_type: DataType::Int32, ..constant.clone() })
            }
            Some(constant) => self.program.constant(scalar, constant.clone()),
            None => {
                self.reads.push(index);
                self.program.input(scalar, shape)
            }
        };
        self.program.store_as(id, fact.data_type);
        self.values[index] = Some(id);
        Ok(id)
    }

    /// Adds an input whose 32-bit elements are read as integers, even if the model file declares them as
    /// floats, and returns its value. Such inputs are the indices that argmax pooling computes.
    ///
    /// # Errors
    ///
    /// Fails if the input is missing, constant, not of 32-bit elements, of unknown shape or without elements.
    pub fn integer_input(&mut self, index: usize) -> Result<ValueId, Unsupported> {
        let fact = self.input_fact(index)?;
        if fact.constant.is_some() || fact.data_type.bits() != Some(32) {
            return Err(Unsupported::new(format!("input {index} is not made by the operator that it belongs to")));
        }
        self.reads.push(index);
        Ok(self.program.input(Scalar::I32, known(fact)?.clone()))
    }

    /// Returns the value of an input read as floats: a computed integer input of any width is added to the
    /// program as floats of the same values, which are those of the stored elements where it is quantized. A
    /// constant keeps its type, as in [`input`](Self::input).
    ///
    /// # Errors
    ///
    /// Fails where the input is missing, its shape is not known, it has no elements, or its type is not supported.
    pub fn real_input(&mut self, index: usize) -> Result<ValueId, Unsupported> {
        let fact = self.input_fact(index)?;
        if fact.constant.is_some() || made_scalar(fact.data_type)? == Scalar::F32 {
            return self.input(index);
        }
        if let Some(id) = self.stored_value(index, Scalar::F32)? {
            return Ok(id);
        }
        self.reads.push(index);
        Ok(self.program.input(Scalar::F32, known(fact)?.clone()))
    }

    /// Returns the value of an input of type `COMPLEX64`: floats with a last axis of two, the real and the imaginary part.
    /// An output of this type is given as such a value.
    ///
    /// # Errors
    ///
    /// Fails if the input is missing, of unknown shape, without elements, or of another type.
    pub fn complex_input(&mut self, index: usize) -> Result<ValueId, Unsupported> {
        let fact = self.input_fact(index)?;
        if fact.data_type != DataType::Complex64 {
            return Err(Unsupported::new(format!("tensors of type {} are not supported", fact.data_type)));
        }
        if let Some(id) = self.values[index] {
            return Ok(id);
        }
        let shape = pairs(known(fact)?);
        let id = match &fact.constant {
            Some(constant) => {
                let (data_type, bytes) = (DataType::Float32, constant.bytes.clone());
                self.program.constant(Scalar::F32, Constant { data_type, shape, bytes })
            }
            None => {
                self.reads.push(index);
                self.program.input(Scalar::F32, shape)
            }
        };
        self.values[index] = Some(id);
        Ok(id)
    }

    /// Returns the value of an input that must be of type `FLOAT32`, as [`input`](Self::input) does.
    ///
    /// # Errors
    ///
    /// Fails if the input is missing, of unknown shape, without elements, or of another type.
    pub fn float_input(&mut self, index: usize) -> Result<ValueId, Unsupported> {
        use DataType::{Float32, Int2, Int4, Int8, Int16, UInt8};
        let is_float = |fact: &&Fact| fact.data_type == Float32;
        match self.input_fact(index)?.data_type {
            Float32 => self.input(index),
            Int2 | Int4 | Int8 | UInt8 | Int16 if self.inputs.iter().flatten().any(is_float) => Err(Unsupported::new(
                "its floats become integers at run time, by quotients that a device rounds in its own way",
            )),
            Int2 | Int4 | Int8 | UInt8 | Int16 => Err(Unsupported::new("it has no form of integers")),
            other => Err(Unsupported::new(format!("input {index} of type {other} is not supported"))),
        }
    }

    /// Adds a constant to the program and returns its value. A device that stores floats as f16 rounds the
    /// elements.
    ///
    /// # Errors
    ///
    /// Fails where the constant's type is not supported.
    pub fn constant(&mut self, constant: Constant) -> Result<ValueId, Unsupported> {
        let scalar = scalar(constant.data_type)?;
        Ok(self.program.constant(scalar, constant))
    }

    /// Adds a constant input of 8, 4 or 2 bits to the program as floats of this shape, of which the program keeps the integers,
    /// and returns its value. `None` if the operator is not lowered to floats, or if the input is no such constant, has a zero
    /// point other than 0, or has several scales that are not those of the indices along the shape's first axis.
    #[must_use]
    pub fn quantized_constant(&mut self, index: usize, shape: &Shape) -> Option<ValueId> {
        let is_float = self.input_fact(index).is_ok_and(|fact| fact.data_type == DataType::Float32);
        let fact = self.stored.0.get(index).copied().flatten().filter(|_| is_float)?;
        let (constant, quantization) = (fact.constant.as_ref()?, fact.quantization.as_ref()?);
        let scales = &quantization.scale;
        let is_symmetric =
            quantization.zero_point.len() == scales.len() && quantization.zero_point.iter().all(|p| *p == 0);
        let fits = scales.len() == 1 || (quantization.axis == 0 && shape.first() == Some(&scales.len()));
        let is_signed = matches!(constant.data_type, DataType::Int8 | DataType::Int4 | DataType::Int2);
        if is_symmetric && fits && is_signed { self.scaled_constant(index, shape, scales) } else { None }
    }

    /// Adds a constant input of integers to the program as floats of this shape, of which the program keeps the integers, and
    /// returns its value. Each scale is for as many consecutive elements as the others. `None` if the input is no such
    /// constant, or if shape or scales don't fit its elements.
    #[must_use]
    pub fn scaled_constant(&mut self, index: usize, shape: &Shape, scales: &[f32]) -> Option<ValueId> {
        let constant = self.stored.0.get(index).copied().flatten()?.constant.as_ref()?;
        let elements =
            shape.checked_elements().filter(|elements| constant.shape.checked_elements() == Some(*elements))?;
        let is_small = constant.data_type.bits().is_some_and(|bits| bits <= 8);
        if !is_small || scales.is_empty() || !elements.is_multiple_of(scales.len()) {
            return None;
        }
        let constant = Constant { shape: shape.clone(), ..constant.clone() };
        Some(self.program.quantized_constant(constant, scales.into()))
    }

    /// Adds a constant to the program that is stored in f32 even if the device stores floats as f16, and
    /// returns its value.
    ///
    /// # Errors
    ///
    /// Fails where the constant's type is not supported.
    pub fn precise_constant(&mut self, constant: Constant) -> Result<ValueId, Unsupported> {
        let id = self.constant(constant)?;
        self.program.values[id.index()].is_inner = true;
        Ok(id)
    }

    /// Declares that a value of integers holds only elements of this type, so that a device may store 8-bit ones as bytes.
    pub fn store_as(&mut self, id: ValueId, data_type: DataType) {
        self.program.store_as(id, data_type);
    }

    /// Returns the shape of a value of the program.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> &Shape {
        self.program.shape(id)
    }

    /// Returns the constant of a value of the program; `None` if the value is not a constant.
    #[must_use]
    pub fn constant_of(&self, id: ValueId) -> Option<&Constant> {
        match &self.program.value(id).source {
            attache_gpu_ir::Source::Constant(constant) => Some(constant),
            _ => None,
        }
    }

    /// Emits a primitive that reads the values `inputs`, and returns the value of its first output.
    ///
    /// # Errors
    ///
    /// Fails where the primitive does not accept these inputs.
    pub fn emit(&mut self, primitive: Primitive, inputs: &[ValueId]) -> Result<ValueId, Unsupported> {
        Ok(self.emit_all(primitive, inputs)?[0])
    }

    /// Emits a primitive that reads the values `inputs`, and returns the values of all its outputs.
    ///
    /// # Errors
    ///
    /// Fails where the primitive does not accept these inputs.
    pub fn emit_all(&mut self, primitive: Primitive, inputs: &[ValueId]) -> Result<Vec<ValueId>, Unsupported> {
        Ok(self.program.step(primitive, inputs, 0)?)
    }

    /// Emits an elementwise map whose inputs are broadcast to `shape` and whose float results are converted
    /// to integers, and returns its value. Booleans become 1 and 0, floats are rounded towards zero.
    ///
    /// # Errors
    ///
    /// Fails where the inputs do not broadcast to `shape` or the expression does not fit them.
    pub fn integer_map(
        &mut self,
        expression: Expression,
        shape: &Shape,
        inputs: &[ValueId],
    ) -> Result<ValueId, Unsupported> {
        self.emit(Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::I32 }, inputs)
    }

    /// Emits an elementwise map in integer arithmetic over inputs broadcast to `shape`, and returns its
    /// value. For an identity map, emits nothing and returns the input.
    ///
    /// # Errors
    ///
    /// Fails where the inputs do not broadcast to `shape` or the expression does not fit them.
    pub fn int_map(
        &mut self,
        expression: IntExpression,
        shape: &Shape,
        inputs: &[ValueId],
    ) -> Result<ValueId, Unsupported> {
        if expression == IntExpression::Input(0) && inputs.len() == 1 && self.shape(inputs[0]) == shape {
            return Ok(inputs[0]);
        }
        self.emit(Primitive::IntMap { expression, shape: shape.clone() }, inputs)
    }

    /// Emits an elementwise map in float arithmetic with a float result, over inputs broadcast to `shape`,
    /// and returns its value. For an identity map, emits nothing and returns the input.
    ///
    /// # Errors
    ///
    /// Fails where the inputs do not broadcast to `shape` or the expression does not fit them.
    pub fn map(&mut self, expression: Expression, shape: &Shape, inputs: &[ValueId]) -> Result<ValueId, Unsupported> {
        let same = |id: ValueId| self.shape(id) == shape && self.program.value(id).scalar == Scalar::F32;
        if expression.is_identity() && inputs.len() == 1 && same(inputs[0]) {
            return Ok(inputs[0]);
        }
        self.emit(Primitive::Map { expression, shape: shape.clone(), scalar: Scalar::F32 }, inputs)
    }

    /// Returns the value reshaped to `shape`: emits a reshape, unless the value already has this shape.
    ///
    /// # Errors
    ///
    /// Fails if the numbers of elements differ.
    pub fn reshape(&mut self, id: ValueId, shape: &Shape) -> Result<ValueId, Unsupported> {
        if self.shape(id) == shape { Ok(id) } else { self.emit(Primitive::Reshape(shape.clone()), &[id]) }
    }

    /// Declares the value `id` as the new value of a variable, the node's input `input`. The next run reads it.
    ///
    /// # Errors
    ///
    /// Fails if the input is no variable of the value's shape and type.
    pub fn set_state(&mut self, input: usize, id: ValueId) -> Result<(), Unsupported> {
        let fact = self.input_fact(input)?;
        let value = self.program.value(id);
        if !fact.is_variable || &value.shape != known(fact)? || value.scalar != scalar(fact.data_type)? {
            return Err(Unsupported::new(format!("its GPU form gives input {input} a value of shape {}", value.shape)));
        }
        self.states.push((input, id));
        Ok(())
    }

    /// Declares the value `id` as the output of the node with index `index`.
    ///
    /// # Errors
    ///
    /// Fails where there is no such output.
    pub fn output(&mut self, index: usize, id: ValueId) -> Result<(), Unsupported> {
        *self.made.get_mut(index).ok_or_else(|| Unsupported::new(format!("there is no output {index}")))? = Some(id);
        Ok(())
    }
}

fn facts<'a>(graph: &'a Graph, node: &Node) -> Facts<'a> {
    (graph.input_facts(node), node.outputs.iter().map(|id| graph.fact(*id)).collect())
}

fn known(fact: &Fact) -> Result<&Shape, Unsupported> {
    match &fact.shape {
        Some(shape) if shape.elements() == 0 => Err(Unsupported::new("a tensor has no elements")),
        Some(shape) => Ok(shape),
        None => Err(Unsupported::new("a tensor's shape is known only at run time")),
    }
}

/// Returns the shape of the floats that complex numbers consist of.
fn pairs(shape: &Shape) -> Shape {
    shape.iter().copied().chain([2]).collect()
}

fn scalar(data_type: DataType) -> Result<Scalar, Unsupported> {
    match data_type {
        // A `FLOAT16` tensor becomes a value of floats; the device decides how it is stored.
        DataType::Float32 | DataType::Float16 => Ok(Scalar::F32),
        DataType::Int32 | DataType::Int16 | DataType::Int8 | DataType::UInt8 | DataType::Bool => Ok(Scalar::I32),
        // An element of `UINT32` is the integer with the same bits.
        DataType::UInt16 | DataType::UInt32 => Ok(Scalar::I32),
        other => Err(Unsupported::new(format!("tensors of type {other} are not supported"))),
    }
}

/// Returns the type of a value for a constant, an output of the node, or an input that is converted. Like
/// [`scalar`], but accepts `INT64`, whose elements are then indices or axes and fit in 32 bits. Other inputs
/// of the program of 64 bits can hold anything and are not supported.
fn made_scalar(data_type: DataType) -> Result<Scalar, Unsupported> {
    if data_type == DataType::Int64 { Ok(Scalar::I32) } else { scalar(data_type) }
}
