//! A graph under construction: its values with their types and shapes, its nodes, and methods that add them.
//!
//! Steps operate on floats, 32-bit integers and booleans. Other operands of an operator, such as axes and sizes, are
//! constants that no step selects. Integers and booleans are computed from inputs and constants, never from floats, so
//! that rounding cannot change their values.

use attache::model::schema::{ActivationFunctionType, BuiltinOperator, BuiltinOptionsT};
use attache::{Bytes, DataType, TensorBuilder};

use crate::random::Random;

/// Maximum estimated magnitude of a float. The estimate assumes that a sum of n random terms grows with √n.
pub(crate) const MOST: f32 = 12.0;

/// Maximum estimated magnitude of an integer.
const MOST_INTEGER: f32 = 4000.0;

/// Maximum number of elements of a value.
const MOST_ELEMENTS: usize = 6000;

/// A value's index in the draft.
pub(crate) type Id = usize;

/// An operator and its version.
pub(crate) type Operator = (BuiltinOperator, i32);

/// Adds nodes that use a value and returns the value for the next step; `None` if the step does not apply.
pub(crate) type Step = fn(&mut Draft, Id) -> Option<Id>;

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Input,
    Constant,
    Result,
    /// Axes, sizes and similar operands. Steps do not select them.
    Setting,
}

/// Type of a value's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Float,
    Integer,
    Boolean,
}

impl Type {
    pub(crate) fn data_type(self) -> DataType {
        match self {
            Type::Float => DataType::Float32,
            Type::Integer => DataType::Int32,
            Type::Boolean => DataType::Bool,
        }
    }
}

/// Elements of a constant, or of an input in the run that the expected outputs are computed for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Elements {
    Floats(Vec<f32>),
    Integers(Vec<i32>),
    Booleans(Vec<bool>),
}

impl Elements {
    /// Random elements of this type, uniform in ±`bound`.
    fn random(random: &mut Random, of: Type, count: usize, bound: f32) -> Self {
        let most = bound as usize;
        match of {
            Type::Float => Elements::Floats((0..count).map(|_| random.float() * bound).collect()),
            Type::Integer => {
                Elements::Integers((0..count).map(|_| random.below(2 * most + 1) as i32 - most as i32).collect())
            }
            Type::Boolean => Elements::Booleans((0..count).map(|_| random.percent(50)).collect()),
        }
    }

    pub(crate) fn of_type(&self) -> Type {
        match self {
            Elements::Floats(_) => Type::Float,
            Elements::Integers(_) => Type::Integer,
            Elements::Booleans(_) => Type::Boolean,
        }
    }

    /// A constant tensor with these elements.
    pub(crate) fn tensor(&self, name: &str, shape: &[usize]) -> TensorBuilder {
        match self {
            Elements::Floats(floats) => TensorBuilder::values(name, shape.to_vec(), floats),
            Elements::Integers(integers) => TensorBuilder::values(name, shape.to_vec(), integers),
            Elements::Booleans(_) => {
                let tensor = TensorBuilder::new(name, DataType::Bool, shape.to_vec());
                tensor.data(Bytes::from_vec(self.bytes().1))
            }
        }
    }
}

pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) of_type: Type,
    pub(crate) shape: Vec<usize>,
    /// Estimate of the largest magnitude.
    pub(crate) bound: f32,
    /// Elements of inputs, constants and settings; `None` for results.
    pub(crate) elements: Option<Elements>,
    is_used: bool,
}

/// A node of the graph.
pub(crate) struct Node {
    pub(crate) operator: Operator,
    pub(crate) inputs: Vec<Id>,
    pub(crate) outputs: Vec<Id>,
    pub(crate) options: BuiltinOptionsT,
}

pub(crate) struct Draft {
    pub(crate) random: Random,
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) outputs: Vec<Id>,
}

impl Draft {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, values: Vec::new(), nodes: Vec::new(), outputs: Vec::new() }
    }

    fn add(&mut self, kind: Kind, shape: &[usize], bound: f32, elements: Elements) -> Id {
        let of_type = elements.of_type();
        let shape = shape.to_vec();
        self.values.push(Value { kind, of_type, shape, bound, elements: Some(elements), is_used: false });
        self.values.len() - 1
    }

    /// Adds an input. Its shape is mostly that of an image, otherwise of rank 0 to 5, and sometimes that of the first
    /// value.
    pub(crate) fn input(&mut self, of_type: Type) -> Id {
        let random = &mut self.random;
        let shape = match self.values.first() {
            Some(first) if random.percent(40) => first.shape.clone(),
            _ if random.percent(75) => {
                vec![random.pick(&[1, 1, 2]), random.within(1, 9), random.within(1, 9), channels(random)]
            }
            _ => (0..random.within(0, 5)).map(|_| random.within(1, 6)).collect(),
        };
        let bound = match of_type {
            Type::Float => 2.0,
            Type::Integer => random.pick(&[3.0, 10.0, 10.0, 300.0]),
            Type::Boolean => 1.0,
        };
        let elements = Elements::random(random, of_type, shape.iter().product(), bound);
        self.add(Kind::Input, &shape, bound, elements)
    }

    /// Adds an input of indices along an axis of this extent.
    pub(crate) fn indices(&mut self, shape: &[usize], extent: usize) -> Id {
        let count = shape.iter().product();
        let indices = (0..count).map(|_| self.random.below(extent) as i32).collect();
        self.add(Kind::Input, shape, extent as f32, Elements::Integers(indices))
    }

    /// Adds a constant of floats that are uniform in ±`bound`.
    pub(crate) fn constant(&mut self, shape: &[usize], bound: f32) -> Id {
        self.constant_of(Type::Float, shape, bound)
    }

    /// Adds a constant of random elements, uniform in ±`bound`.
    pub(crate) fn constant_of(&mut self, of_type: Type, shape: &[usize], bound: f32) -> Id {
        let elements = Elements::random(&mut self.random, of_type, shape.iter().product(), bound);
        self.add(Kind::Constant, shape, bound, elements)
    }

    /// Adds a constant with these elements, and records `bound` as the estimate of their largest magnitude.
    pub(crate) fn elements(&mut self, shape: &[usize], bound: f32, elements: Elements) -> Id {
        self.add(Kind::Constant, shape, bound, elements)
    }

    /// Adds a constant that parameterizes an operator, such as axes or sizes.
    pub(crate) fn setting(&mut self, shape: &[usize], integers: &[i32]) -> Id {
        self.add(Kind::Setting, shape, 0.0, Elements::Integers(integers.to_vec()))
    }

    /// Adds a setting of rank 1; see [`Draft::setting`].
    pub(crate) fn list(&mut self, integers: impl IntoIterator<Item = usize>) -> Id {
        let integers: Vec<i32> = integers.into_iter().map(|integer| integer as i32).collect();
        self.setting(&[integers.len()], &integers)
    }

    pub(crate) fn shape(&self, value: Id) -> Vec<usize> {
        self.values[value].shape.clone()
    }

    pub(crate) fn bound(&self, value: Id) -> f32 {
        self.values[value].bound
    }

    pub(crate) fn of_type(&self, value: Id) -> Type {
        self.values[value].of_type
    }

    /// Batch, height, width and channels of a float value of rank 4; `None` for other values.
    pub(crate) fn image(&self, value: Id) -> Option<[usize; 4]> {
        let image = self.values[value].shape.as_slice().try_into().ok();
        image.filter(|_| self.of_type(value) == Type::Float)
    }

    /// Whether a result of the type of `like` may have this shape and this estimated magnitude.
    pub(crate) fn fits(&self, like: Id, shape: &[usize], bound: f32) -> bool {
        fits(self.of_type(like), shape, bound)
    }

    /// Adds a node with several results of one type and magnitude.
    fn results(
        &mut self,
        operator: Operator,
        inputs: &[Id],
        options: BuiltinOptionsT,
        shapes: &[Vec<usize>],
        (of_type, bound): (Type, f32),
    ) -> Vec<Id> {
        let first = self.values.len();
        self.values.extend(shapes.iter().map(|shape| {
            let shape = shape.clone();
            Value { kind: Kind::Result, of_type, shape, bound, elements: None, is_used: false }
        }));
        let outputs: Vec<Id> = (first..self.values.len()).collect();
        inputs.iter().for_each(|input| self.values[*input].is_used = true);
        self.nodes.push(Node { operator, inputs: inputs.to_vec(), outputs: outputs.clone(), options });
        outputs
    }

    /// Adds a node with several results. Their type is that of the first input that is not a setting.
    pub(crate) fn split(
        &mut self,
        operator: Operator,
        inputs: &[Id],
        options: BuiltinOptionsT,
        shapes: &[Vec<usize>],
        bound: f32,
    ) -> Vec<Id> {
        let of_type = self.carried(inputs);
        self.results(operator, inputs, options, shapes, (of_type, bound))
    }

    /// Adds a node with one result; `None` if the result would be too large. Its type is that of the first input that
    /// is not a setting.
    pub(crate) fn node(
        &mut self,
        operator: Operator,
        inputs: &[Id],
        options: BuiltinOptionsT,
        shape: &[usize],
        bound: f32,
    ) -> Option<Id> {
        let of_type = self.carried(inputs);
        self.typed(operator, inputs, options, shape, (of_type, bound))
    }

    /// Adds a node with one result of this type and magnitude; `None` if the result would be too large.
    pub(crate) fn typed(
        &mut self,
        operator: Operator,
        inputs: &[Id],
        options: BuiltinOptionsT,
        shape: &[usize],
        (of_type, bound): (Type, f32),
    ) -> Option<Id> {
        let fits = fits(of_type, shape, bound);
        fits.then(|| self.results(operator, inputs, options, &[shape.to_vec()], (of_type, bound))[0])
    }

    fn carried(&self, inputs: &[Id]) -> Type {
        let carries = inputs.iter().find(|input| self.values[**input].kind != Kind::Setting);
        self.of_type(*carries.expect("a node reads a value"))
    }

    /// A random value of a random type that the draft has. The most recent value of that type is preferred; constants
    /// are rare.
    pub(crate) fn any(&mut self) -> Id {
        let types = [Type::Float, Type::Float, Type::Float, Type::Integer, Type::Boolean];
        let there: Vec<Type> = types.into_iter().filter(|wanted| !self.all(*wanted, |_| true).is_empty()).collect();
        let wanted = self.random.pick(&there);
        let constants = self.random.percent(5);
        let mut found = self.all(wanted, |value| value.kind != Kind::Constant || constants);
        if found.is_empty() {
            found = self.all(wanted, |_| true);
        }
        if self.random.percent(50) { *found.last().expect("it is there") } else { self.random.pick(&found) }
    }

    /// The values of a type for which `is_so` returns true, except settings.
    pub(crate) fn all(&self, of_type: Type, is_so: impl Fn(&Value) -> bool) -> Vec<Id> {
        let is_found = |value: &Value| value.kind != Kind::Setting && value.of_type == of_type && is_so(value);
        self.values.iter().enumerate().filter(|(_, value)| is_found(value)).map(|(id, _)| id).collect()
    }

    /// The values of the type of `like` whose shapes satisfy `is_so`.
    pub(crate) fn peers(&self, like: Id, is_so: impl Fn(&[usize]) -> bool) -> Vec<Id> {
        self.all(self.of_type(like), |value| is_so(&value.shape))
    }

    /// Selects the outputs: most results that no node reads, and some other values. One output is sometimes listed
    /// twice.
    pub(crate) fn choose_outputs(&mut self) {
        for id in 0..self.values.len() {
            let Value { kind, is_used, .. } = self.values[id];
            let chance = match (kind, is_used) {
                (Kind::Result, false) => 95,
                (Kind::Result, true) => 15,
                (Kind::Constant, _) => 4,
                (Kind::Input, _) => 3,
                (Kind::Setting, _) => 0,
            };
            if self.random.percent(chance) {
                self.outputs.push(id);
            }
        }
        let last = self.values.iter().rposition(|value| value.kind == Kind::Result);
        if self.outputs.is_empty() {
            self.outputs.extend(last);
        }
        if self.random.percent(5) && !self.outputs.is_empty() {
            let twice = self.random.pick(&self.outputs);
            self.outputs.push(twice);
        }
    }

    /// A random fused activation. LiteRT's CPU kernels support no others.
    pub(crate) fn activation(&mut self) -> ActivationFunctionType {
        use ActivationFunctionType as A;
        self.random.pick(&[A::NONE, A::NONE, A::NONE, A::RELU, A::RELU6, A::RELU_N1_TO_1])
    }
}

fn fits(of_type: Type, shape: &[usize], bound: f32) -> bool {
    let elements: usize = shape.iter().product();
    let most = if of_type == Type::Integer { MOST_INTEGER } else { MOST };
    (1..=MOST_ELEMENTS).contains(&elements) && bound <= most
}

/// A random number of channels, which includes odd numbers and multiples of 4.
pub(crate) fn channels(random: &mut Random) -> usize {
    random.pick(&[1, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16])
}
