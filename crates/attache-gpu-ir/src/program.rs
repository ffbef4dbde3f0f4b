//! [`Program`]: tensors, and the steps that compute them, in an order in which each value is computed before
//! it is used. Operators are lowered into a program, and a back end or the interpreter runs it.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use attache_base::{Constant, DataType, Shape};
use serde::{Deserialize, Serialize};

use crate::{Primitive, RowStep};

/// Identifies a value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Returns the value's index in [`Program::values`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value's elements. The back end decides how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scalar {
    /// A 32-bit float.
    F32,
    /// A 32-bit signed integer. Booleans are the integers 1 and 0.
    I32,
}

/// An 8-bit integer type whose range contains all elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ByteType {
    /// Signed bytes, -128 to 127.
    Signed,
    /// Unsigned bytes, 0 to 255.
    Unsigned,
}

impl ByteType {
    /// Returns the byte type of `Int8` and `UInt8`; `None` for other types.
    #[must_use]
    pub fn of(data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::Int8 => Some(ByteType::Signed),
            DataType::UInt8 => Some(ByteType::Unsigned),
            _ => None,
        }
    }
}

/// Where the elements of a value come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// The caller supplies the elements at every run.
    Input,
    /// The elements are a constant, convertible to the value's type.
    Constant(Constant),
    /// The step with this index in [`Program::steps`] computes the elements.
    Step(usize),
}

/// A tensor of a program: an input, a constant or an output of a step.
#[derive(Clone, Debug)]
pub struct Value {
    /// The type of the elements.
    pub scalar: Scalar,
    /// The extent of each axis, outermost first.
    pub shape: Shape,
    /// Where the elements come from: the caller, a constant or a step.
    pub source: Source,
    /// Whether a back end has to store the value in full precision, f32, in every precision mode. True of
    /// intermediate results inside a program appended by [`Program::append`], and of values that callers
    /// mark.
    pub is_inner: bool,
    /// The 8-bit type whose range contains every element, if the elements are integers and such a type is
    /// known. A back end may then store them as bytes.
    pub bytes: Option<ByteType>,
    /// The factors by which the integers of a constant become floats, each for as many consecutive elements as the others:
    /// for all elements, for those of an index along the first axis, or for a block of them. `None` for other values. A back
    /// end may multiply the integers as they are.
    pub scales: Option<Arc<[f32]>>,
}

impl Value {
    /// Returns the elements of a constant of floats, also if it holds integers with scales; `None` for other values, and if
    /// the constant has too few bytes.
    #[must_use]
    pub fn floats(&self) -> Option<Cow<'_, [f32]>> {
        let Source::Constant(constant) = &self.source else { return None };
        let Some(scales) = self.scales.as_deref() else { return constant.floats() };
        let (block, mut floats) = (self.block()?, constant.integers_as_floats()?);
        for (scale, floats) in scales.iter().zip(floats.chunks_mut(block.max(1))) {
            floats.iter_mut().for_each(|float| *float *= scale);
        }
        Some(Cow::Owned(floats))
    }

    /// Returns the number of consecutive elements that each of the value's scales is for; `None` if it has no scales, or if
    /// they don't divide its elements evenly.
    #[must_use]
    pub fn block(&self) -> Option<usize> {
        let (elements, scales) = (self.shape.elements(), self.scales.as_deref()?.len());
        (scales > 0 && elements.is_multiple_of(scales)).then(|| elements / scales)
    }
}

/// One primitive applied to values.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation that the step performs.
    pub primitive: Primitive,
    /// The values that the primitive reads, in the order that it defines.
    pub inputs: Vec<ValueId>,
    /// The values that the primitive computes, in the order that it defines.
    pub outputs: Vec<ValueId>,
    /// Identifies where the step comes from, usually the index of an operator. The caller defines its
    /// meaning, and reports repeat it.
    pub origin: usize,
}

/// Values, the steps that compute them, and the program's inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All values. A [`ValueId`] is an index into this list.
    pub values: Vec<Value>,
    /// All steps, in execution order.
    pub steps: Vec<Step>,
    /// The inputs, in the caller's order.
    pub inputs: Vec<ValueId>,
    /// The outputs, in the caller's order. An output may be an input or a constant, and may occur twice.
    pub outputs: Vec<ValueId>,
}

/// The error of an invalid program: a primitive does not accept its inputs, a step's outputs differ from what
/// its primitive computes, or a value is used before it is computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{primitive}: {reason}")]
pub struct InvalidProgram {
    /// The name of the primitive of the invalid step, or "output" if an output of the program has no value.
    pub primitive: &'static str,
    /// Why the step is invalid.
    pub reason: String,
}

impl Program {
    /// Returns the value with this id.
    ///
    /// # Panics
    ///
    /// If the program has no such value.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// Returns the shape of the value.
    ///
    /// # Panics
    ///
    /// If the program has no such value.
    #[must_use]
    pub fn shape(&self, id: ValueId) -> &Shape {
        &self.value(id).shape
    }

    /// Adds an input of this type and shape after the existing inputs. Returns its id.
    pub fn input(&mut self, scalar: Scalar, shape: Shape) -> ValueId {
        let id = self.push(Value { scalar, shape, source: Source::Input, is_inner: false, bytes: None, scales: None });
        self.inputs.push(id);
        id
    }

    /// Adds a constant whose elements have type `scalar` in the program, even if `constant` stores them in
    /// another type. Returns its id.
    pub fn constant(&mut self, scalar: Scalar, constant: Constant) -> ValueId {
        let shape = constant.shape.clone();
        let bytes = ByteType::of(constant.data_type).filter(|_| scalar == Scalar::I32);
        self.push(Value { scalar, shape, source: Source::Constant(constant), is_inner: false, bytes, scales: None })
    }

    /// Adds a constant of integers that stand for floats, see [`Value::scales`].
    pub fn quantized_constant(&mut self, constant: Constant, scales: Arc<[f32]>) -> ValueId {
        let id = self.constant(Scalar::F32, constant);
        self.values[id.index()].scales = Some(scales);
        id
    }

    /// Declares that the value contains the elements of a tensor of this type. If it is an 8-bit type, a back
    /// end may store the elements as bytes. Constants already have this information and are not changed.
    ///
    /// # Panics
    ///
    /// If the program has no such value.
    pub fn store_as(&mut self, id: ValueId, data_type: DataType) {
        let value = &mut self.values[id.index()];
        let is_constant = matches!(value.source, Source::Constant(_));
        if value.scalar == Scalar::I32 && value.bytes.is_none() && !is_constant {
            value.bytes = ByteType::of(data_type);
        }
    }

    /// Adds a step and returns its outputs, whose types and shapes are inferred from the primitive. `origin`
    /// is stored as [`Step::origin`].
    ///
    /// # Errors
    ///
    /// If the primitive does not accept the inputs.
    ///
    /// # Panics
    ///
    /// If an input is not a value of the program.
    pub fn step(
        &mut self,
        primitive: Primitive,
        inputs: &[ValueId],
        origin: usize,
    ) -> Result<Vec<ValueId>, InvalidProgram> {
        let name = primitive.name();
        let facts: Vec<_> = inputs.iter().map(|id| (self.value(*id).scalar, self.shape(*id))).collect();
        let inferred = primitive.infer(&facts).map_err(|reason| InvalidProgram { primitive: name, reason })?;
        let source = self.steps.len();
        let make = |(scalar, shape)| {
            self.push(Value { scalar, shape, source: Source::Step(source), is_inner: false, bytes: None, scales: None })
        };
        let outputs: Vec<ValueId> = inferred.into_iter().map(make).collect();
        self.steps.push(Step { primitive, inputs: inputs.to_vec(), outputs: outputs.clone(), origin });
        Ok(outputs)
    }

    /// Appends the steps of another program, with `origin` as their [`Step::origin`] and with its inputs
    /// replaced by the values `inputs` of this program. Returns its outputs as values of this program.
    ///
    /// # Panics
    ///
    /// If there are fewer `inputs` than the other program has.
    pub fn append(&mut self, other: &Program, inputs: &[ValueId], origin: usize) -> Vec<ValueId> {
        let base = self.steps.len();
        let mut renamed: Vec<ValueId> = Vec::with_capacity(other.values.len());
        let mut outside = inputs.iter();
        for (index, value) in other.values.iter().enumerate() {
            let is_inner = !other.outputs.contains(&ValueId(index as u32));
            renamed.push(match &value.source {
                Source::Input => *outside.next().expect("one value for each input of the appended program"),
                Source::Constant(_) => self.push(value.clone()),
                Source::Step(step) => self.push(Value { source: Source::Step(base + step), is_inner, ..value.clone() }),
            });
        }
        let rename = |ids: &[ValueId]| ids.iter().map(|id| renamed[id.index()]).collect::<Vec<_>>();
        self.steps.extend(other.steps.iter().map(|step| Step {
            primitive: step.primitive.clone(),
            inputs: rename(&step.inputs),
            outputs: rename(&step.outputs),
            origin,
        }));
        rename(&other.outputs)
    }

    /// Checks that each step's primitive accepts its inputs and computes its outputs, and that values are computed
    /// before they are used.
    ///
    /// # Errors
    ///
    /// If a step violates this. The error describes the first such step.
    ///
    /// # Panics
    ///
    /// If a step uses a value that the program does not have.
    pub fn validate(&self) -> Result<(), InvalidProgram> {
        for (index, step) in self.steps.iter().enumerate() {
            let wrong = |reason: String| InvalidProgram { primitive: step.primitive.name(), reason };
            for id in &step.inputs {
                if matches!(self.value(*id).source, Source::Step(made) if made >= index) {
                    return Err(wrong(format!("value {} is used before it is made", id.0)));
                }
            }
            let facts: Vec<_> = step.inputs.iter().map(|id| (self.value(*id).scalar, self.shape(*id))).collect();
            let inferred = step.primitive.infer(&facts).map_err(wrong)?;
            let stated: Vec<_> =
                step.outputs.iter().map(|id| self.value(*id)).map(|v| (v.scalar, v.shape.clone())).collect();
            if inferred != stated {
                return Err(wrong(format!("makes {inferred:?}, not {stated:?}")));
            }
        }
        Ok(())
    }

    fn push(&mut self, value: Value) -> ValueId {
        self.values.push(value);
        ValueId(self.values.len() as u32 - 1)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ids: &[ValueId]| ids.iter().map(|id| format!("%{}", id.0)).collect::<Vec<_>>().join(", ");
        for id in &self.inputs {
            writeln!(f, "%{} = input {}", id.0, self.shape(*id))?;
        }
        for step in &self.steps {
            let shapes: Vec<_> = step.outputs.iter().map(|id| self.shape(*id).to_string()).collect();
            write!(f, "{} = {}({})", list(&step.outputs), step.primitive.name(), list(&step.inputs))?;
            writeln!(f, " -> {}  # {}: {}", shapes.join(", "), step.origin, Details(&step.primitive))?;
        }
        writeln!(f, "output {}", list(&self.outputs))
    }
}

impl Primitive {
    /// Returns the parameters of the primitive as displayable text, without its name.
    #[must_use]
    pub fn parameters(&self) -> impl fmt::Display {
        Details(self)
    }
}

/// Displays the parameters of a primitive, in the text form of a [`Program`] and in reports.
struct Details<'a>(&'a Primitive);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Primitive::Map { expression, .. } => write!(f, "{expression}"),
            Primitive::IntMap { expression, .. } => write!(f, "{expression}"),
            Primitive::Reshape(shape) => write!(f, "{shape}"),
            Primitive::Update => Ok(()),
            Primitive::Unpool { size } => write!(f, "{size:?}"),
            Primitive::IndexMap(map) => {
                let coordinates: Vec<_> = map.coordinates.iter().map(|index| index.to_string()).collect();
                write!(f, "[{}]", coordinates.join(", "))?;
                map.fill.map_or(Ok(()), |fill| write!(f, " else {fill}"))
            }
            Primitive::Concatenate { axis } => write!(f, "axis {axis}"),
            Primitive::Reduce { reduction, axes } => write!(f, "{reduction:?} over {axes:?}"),
            Primitive::Rows(rows) => {
                write!(f, "axes {:?}: ", rows.axes)?;
                for step in &rows.steps {
                    match step {
                        RowStep::Fold(reduction, expression) => write!(f, "{reduction:?}({expression}), ")?,
                        RowStep::Map(expression) => write!(f, "{expression}, ")?,
                        RowStep::Across(reduction, expression) => write!(f, "across {reduction:?}({expression}), ")?,
                    }
                }
                write!(f, "{}", rows.result)
            }
            Primitive::Window(window) => write!(f, "{window:?}"),
            Primitive::Convolution(convolution) => write!(f, "{convolution:?}"),
            Primitive::Resample(resample) => write!(f, "{resample:?}"),
            Primitive::Gather(gather) => write!(f, "{gather:?}"),
            Primitive::Scatter { combination: Some(combination), rows } => write!(f, "{combination:?} in {rows} rows"),
            Primitive::Scatter { combination: None, rows } => write!(f, "{rows} rows"),
            Primitive::ArgReduce { largest, axis, parts } => {
                write!(f, "{} of axis {axis} in {parts}", if *largest { "largest" } else { "smallest" })
            }
            Primitive::Scan { axis, exclusive, reverse } => {
                write!(f, "axis {axis}, exclusive {exclusive}, reverse {reverse}")
            }
            Primitive::TopK { count } => write!(f, "{count}"),
            Primitive::Suppress(suppression) => write!(f, "{suppression:?}"),
            Primitive::MatMul { transposed, order } => {
                write!(f, "transposed {transposed:?}")?;
                if order.is_empty() { Ok(()) } else { write!(f, ", in the order {order:?}") }
            }
        }
    }
}
