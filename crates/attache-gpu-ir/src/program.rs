//! A program: values and the steps that make them, in an order in which each value is made before it is used.

use std::fmt;

use attache_base::{Constant, DataType, Shape};

use crate::{Primitive, RowStep};

/// A value of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u32);

impl ValueId {
    /// Its place in [`Program::values`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a value's elements mean. How they are stored is the back end's decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scalar {
    /// A real number.
    F32,
    /// An integer of 32 bits. Truth is 1, its opposite 0.
    I32,
}

/// The kind of bytes that hold a value's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bytes {
    /// From -128 to 127.
    Signed,
    /// From 0 to 255.
    Unsigned,
}

impl Bytes {
    /// Those of a type of 8 bits; `None` for other types.
    pub fn of(data_type: DataType) -> Option<Self> {
        match data_type {
            DataType::Int8 => Some(Bytes::Signed),
            DataType::UInt8 => Some(Bytes::Unsigned),
            _ => None,
        }
    }
}

/// Where a value comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// From outside, at every run.
    Input,
    /// Known beforehand; elements of the scalar's type.
    Constant(Constant),
    /// From a step.
    Step(usize),
}

/// A tensor of a program.
#[derive(Clone, Debug)]
pub struct Value {
    /// What the elements mean.
    pub scalar: Scalar,
    /// Extents, outermost first.
    pub shape: Shape,
    /// Where it comes from.
    pub source: Source,
    /// Whether it is but a step on the way inside of what one caller of [`Program::append`] appended: a back end keeps such
    /// values in full precision.
    pub is_inner: bool,
    /// Where every element of a value of integers fits a byte: which kind. A back end may store it so.
    pub bytes: Option<Bytes>,
}

/// One primitive applied to values.
#[derive(Clone, Debug)]
pub struct Step {
    /// What is done.
    pub primitive: Primitive,
    /// To which values.
    pub inputs: Vec<ValueId>,
    /// The values made.
    pub outputs: Vec<ValueId>,
    /// Whose work this is: an index that the caller gives meaning, carried through to reports.
    pub origin: usize,
}

/// Values, the steps that make them, and which of them come in and go out.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Every value.
    pub values: Vec<Value>,
    /// Every step, in order.
    pub steps: Vec<Step>,
    /// Values that come from outside, in the caller's order.
    pub inputs: Vec<ValueId>,
    /// Values that go outside, in the caller's order. One may be an input or a constant, or be named twice.
    pub outputs: Vec<ValueId>,
}

/// A step that its primitive doesn't accept, or a value used before it is made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{primitive}: {reason}")]
pub struct InvalidProgram {
    /// The primitive's name.
    pub primitive: &'static str,
    /// What is wrong.
    pub reason: String,
}

impl Program {
    /// The value.
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }

    /// The value's shape.
    pub fn shape(&self, id: ValueId) -> &Shape {
        &self.value(id).shape
    }

    /// A new value from outside.
    pub fn input(&mut self, scalar: Scalar, shape: Shape) -> ValueId {
        let id = self.push(Value { scalar, shape, source: Source::Input, is_inner: false, bytes: None });
        self.inputs.push(id);
        id
    }

    /// A new value known beforehand.
    pub fn constant(&mut self, scalar: Scalar, constant: Constant) -> ValueId {
        let shape = constant.shape.clone();
        let bytes = Bytes::of(constant.data_type).filter(|_| scalar == Scalar::I32);
        self.push(Value { scalar, shape, source: Source::Constant(constant), is_inner: false, bytes })
    }

    /// States that a value holds the elements of a tensor of this type: where they are bytes, a back end may store it so.
    /// Constants tell by themselves.
    pub fn hold(&mut self, id: ValueId, data_type: DataType) {
        let value = &mut self.values[id.index()];
        let is_constant = matches!(value.source, Source::Constant(_));
        if value.scalar == Scalar::I32 && value.bytes.is_none() && !is_constant {
            value.bytes = Bytes::of(data_type);
        }
    }

    /// A new step; its outputs, with the shapes that the primitive gives them.
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

    /// Appends another program's steps under `origin`, its inputs being `inputs` of this one; its outputs as values
    /// of this one.
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

    /// Checks that every step's primitive accepts its inputs and makes its outputs, and that order is kept.
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
    /// Its parameters as text, without its name.
    pub fn parameters(&self) -> impl fmt::Display {
        Details(self)
    }
}

/// A primitive's parameters, for [`Program`]'s text.
struct Details<'a>(&'a Primitive);

impl fmt::Display for Details<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Primitive::Map { expression, .. } => write!(f, "{expression}"),
            Primitive::WholeMap { expression, .. } => write!(f, "{expression}"),
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
            Primitive::Contract(contraction) => write!(f, "{contraction:?}"),
            Primitive::Resample(resample) => write!(f, "{resample:?}"),
            Primitive::Gather(gather) => write!(f, "{gather:?}"),
            Primitive::ArgReduce { largest, axis } => {
                write!(f, "{} of axis {axis}", if *largest { "largest" } else { "smallest" })
            }
            Primitive::Scan { axis, exclusive, reverse } => {
                write!(f, "axis {axis}, exclusive {exclusive}, reverse {reverse}")
            }
            Primitive::TopK { count } => write!(f, "{count}"),
            Primitive::Multiply { transposed } => write!(f, "transposed {transposed:?}"),
        }
    }
}
