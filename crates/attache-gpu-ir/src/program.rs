//! Programs: values, and the steps that compute them in an order in which each value is computed before it is used.

use std::fmt;

use attache_base::{Constant, DataType, Shape};

use crate::{Primitive, RowStep};

/// Identifies a value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// The index in [`Program::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The type of a value's elements. The back end decides how they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A float.
    F32,
    /// A 32-bit integer. Booleans are 1 and 0.
    I32,
}

/// The 8-bit type whose range contains a value's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteType {
    /// -128 to 127.
    Signed,
    /// 0 to 255.
    Unsigned,
}

impl ByteType {
    /// The kind of an 8-bit type; `None` for other types.
    pub fn of(data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::Int8 => Some(ByteType::Signed),
            DataType::UInt8 => Some(ByteType::Unsigned),
            _ => None,
        }
    }
}

/// The source of a value.
#[derive(Clone, Debug)]
pub enum Source {
    /// Supplied by the caller at every run.
    Input,
    /// A constant with elements of the value's type.
    Constant(Constant),
    /// Computed by the step with this index.
    Step(usize),
}

/// A tensor of a program.
#[derive(Clone, Debug)]
pub struct Value {
    /// The type of the elements.
    pub scalar: Scalar,
    /// Extents, outermost first.
    pub shape: Shape,
    /// The source of the value.
    pub source: Source,
    /// Whether the value is an intermediate result inside a program appended by [`Program::append`]. A back end stores
    /// such values in full precision.
    pub is_inner: bool,
    /// The 8-bit type that contains every element, if the elements are integers of such a range. A back end may store
    /// them as bytes.
    pub bytes: Option<ByteType>,
}

/// One primitive applied to values.
#[derive(Clone, Debug)]
pub struct Step {
    /// The operation.
    pub primitive: Primitive,
    /// The values it reads.
    pub inputs: Vec<ValueId>,
    /// The values it computes.
    pub outputs: Vec<ValueId>,
    /// Where the step comes from: an index whose meaning the caller defines, and which is carried through to reports.
    pub origin: usize,
}

/// Values, the steps that compute them, and the program's inputs and outputs.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// All values.
    pub values: Vec<Value>,
    /// All steps, in execution order.
    pub steps: Vec<Step>,
    /// The inputs, in the caller's order.
    pub inputs: Vec<ValueId>,
    /// The outputs, in the caller's order. An output may be an input or a constant, and may occur twice.
    pub outputs: Vec<ValueId>,
}

/// A step whose primitive does not accept its inputs, or that uses a value before it is computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{primitive}: {reason}")]
pub struct InvalidProgram {
    /// The primitive's name.
    pub primitive: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl Program {
    /// The value with this id.
    ///
    /// # Panics
    ///
    /// If the program has no such value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The shape of the value.
    ///
    /// # Panics
    ///
    /// If the program has no such value.
    pub fn shape(&self, id: ValueId) -> &Shape {
        &self.value(id).shape
    }

    /// Adds an input.
    pub fn input(&mut self, scalar: Scalar, shape: Shape) -> ValueId {
        let id = self.push(Value { scalar, shape, source: Source::Input, is_inner: false, bytes: None });
        self.inputs.push(id);
        id
    }

    /// Adds a constant.
    pub fn constant(&mut self, scalar: Scalar, constant: Constant) -> ValueId {
        let shape = constant.shape.clone();
        let bytes = ByteType::of(constant.data_type).filter(|_| scalar == Scalar::I32);
        self.push(Value { scalar, shape, source: Source::Constant(constant), is_inner: false, bytes })
    }

    /// Declares that the value contains the elements of a tensor of this type. If that is an 8-bit type, a back end may
    /// store them as bytes. Constants already have this information, and are not changed.
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

    /// Adds a step and returns its outputs, whose types and shapes are inferred from the primitive.
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
            self.push(Value { scalar, shape, source: Source::Step(source), is_inner: false, bytes: None })
        };
        let outputs: Vec<ValueId> = inferred.into_iter().map(make).collect();
        self.steps.push(Step { primitive, inputs: inputs.to_vec(), outputs: outputs.clone(), origin });
        Ok(outputs)
    }

    /// Appends the steps of another program under `origin`, with its inputs replaced by the values `inputs` of this
    /// program. Returns its outputs as values of this program.
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
    /// The first step that violates this.
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
    /// The parameters as text, without the name.
    pub fn parameters(&self) -> impl fmt::Display {
        Details(self)
    }
}

/// The parameters of a primitive, for the text form of a [`Program`].
struct Details<'a>(&'a Primitive);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Primitive::Map { expression, .. } => write!(f, "{expression}"),
            Primitive::IntMap { expression, .. } => write!(f, "{expression}"),
            Primitive::Reshape(shape) => write!(f, "{shape}"),
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
            Primitive::ArgReduce { largest, axis } => {
                write!(f, "{} of axis {axis}", if *largest { "largest" } else { "smallest" })
            }
            Primitive::Scan { axis, exclusive, reverse } => {
                write!(f, "axis {axis}, exclusive {exclusive}, reverse {reverse}")
            }
            Primitive::TopK { count } => write!(f, "{count}"),
            Primitive::MatMul { transposed } => write!(f, "transposed {transposed:?}"),
        }
    }
}
