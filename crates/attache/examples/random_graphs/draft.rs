//! A graph in the making: its values with their shapes, and how nodes and constants are added.
//!
//! Contract: every value here is float; integers that operators want are constants that no step gets to see.

use attache::model::schema::{ActivationFunctionType, BuiltinOperator, BuiltinOptionsT};
use attache::{DataType, ModelBuilder, OperatorBuilder, TensorBuilder};

use crate::random::Random;

/// The largest magnitude that a value is let grow to, as far as it is estimated. Contractions count with the root of
/// their length, as random terms add up.
pub(crate) const MOST: f32 = 12.0;

/// The most elements of a value.
const MOST_ELEMENTS: usize = 6000;

/// A value's index in the draft, which is its tensor's in the model.
pub(crate) type Id = usize;

/// Adds nodes that use a value, and gives what is to be carried on with; `None`, with nothing added, where it doesn't
/// apply.
pub(crate) type Step = fn(&mut Draft, Id) -> Option<Id>;

/// Where a value comes from.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Input,
    Constant,
    Result,
    /// Indices, shapes and the like: nothing for steps.
    Setting,
}

pub(crate) struct Value {
    pub(crate) kind: Kind,
    pub(crate) shape: Vec<usize>,
    /// About the largest magnitude.
    pub(crate) bound: f32,
    is_used: bool,
}

impl Value {
    pub(crate) fn elements(&self) -> usize {
        self.shape.iter().product()
    }
}

pub(crate) struct Draft {
    model: ModelBuilder,
    pub(crate) random: Random,
    pub(crate) values: Vec<Value>,
    pub(crate) operators: usize,
    outputs: Vec<Id>,
}

impl Draft {
    pub(crate) fn new(random: Random) -> Self {
        let mut model = ModelBuilder::new("random graph");
        model.subgraph("main");
        Self { model, random, values: Vec::new(), operators: 0, outputs: Vec::new() }
    }

    fn add(&mut self, kind: Kind, shape: &[usize], bound: f32, tensor: TensorBuilder) -> Id {
        self.values.push(Value { kind, shape: shape.to_vec(), bound, is_used: false });
        self.model.tensor(0, tensor)
    }

    fn name(&self, stem: &str) -> String {
        format!("{stem}{}", self.values.len())
    }

    /// An input: mostly an image, else of rank 1 to 5; sometimes of an earlier input's shape.
    pub(crate) fn input(&mut self) -> Id {
        let random = &mut self.random;
        let shape = match self.values.first() {
            Some(first) if random.percent(40) => first.shape.clone(),
            _ if random.percent(75) => {
                vec![random.pick(&[1, 1, 2]), random.within(1, 9), random.within(1, 9), channels(random)]
            }
            _ => (0..random.within(1, 5)).map(|_| random.within(1, 6)).collect(),
        };
        let tensor = TensorBuilder::new(&self.name("input"), DataType::Float32, shape.clone());
        self.add(Kind::Input, &shape, 2.0, tensor)
    }

    /// A constant of uniform values up to `bound`.
    pub(crate) fn constant(&mut self, shape: &[usize], bound: f32) -> Id {
        let count = shape.iter().product();
        let elements: Vec<f32> = (0..count).map(|_| self.random.float() * bound).collect();
        self.elements(shape, bound, &elements)
    }

    /// A constant of these elements, none of them larger than `bound`.
    pub(crate) fn elements(&mut self, shape: &[usize], bound: f32, elements: &[f32]) -> Id {
        let tensor = TensorBuilder::values(&self.name("constant"), shape.to_vec(), elements);
        self.add(Kind::Constant, shape, bound, tensor)
    }

    /// A constant that tells an operator what to do.
    pub(crate) fn setting(&mut self, shape: &[usize], integers: &[i32]) -> Id {
        let tensor = TensorBuilder::values(&self.name("setting"), shape.to_vec(), integers);
        self.add(Kind::Setting, shape, 0.0, tensor)
    }

    /// As [`Draft::setting`], of rank 1.
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

    /// Batch, height, width and channels of a value of rank 4.
    pub(crate) fn image(&self, value: Id) -> Option<[usize; 4]> {
        self.values[value].shape.as_slice().try_into().ok()
    }

    /// Whether a result may have this shape and about this magnitude.
    pub(crate) fn fits(&self, shape: &[usize], bound: f32) -> bool {
        let elements: usize = shape.iter().product();
        (1..=MOST_ELEMENTS).contains(&elements) && bound <= MOST
    }

    /// Adds a node with several results of one magnitude.
    pub(crate) fn split(
        &mut self,
        (operator, version): (BuiltinOperator, i32),
        inputs: &[Id],
        options: BuiltinOptionsT,
        shapes: &[Vec<usize>],
        bound: f32,
    ) -> Vec<Id> {
        let result = |draft: &mut Self, shape: &Vec<usize>| {
            let tensor = TensorBuilder::new(&draft.name("value"), DataType::Float32, shape.clone());
            draft.add(Kind::Result, shape, bound, tensor)
        };
        let results: Vec<Id> = shapes.iter().map(|shape| result(self, shape)).collect();
        inputs.iter().for_each(|input| self.values[*input].is_used = true);
        let node = OperatorBuilder::new(operator, inputs.iter().copied(), results.iter().copied());
        self.model.operator(0, node.options(options).version(version));
        self.operators += 1;
        results
    }

    /// Adds a node with one result, unless that gets too large.
    pub(crate) fn node(
        &mut self,
        operator: (BuiltinOperator, i32),
        inputs: &[Id],
        options: BuiltinOptionsT,
        shape: &[usize],
        bound: f32,
    ) -> Option<Id> {
        let fits = self.fits(shape, bound);
        fits.then(|| self.split(operator, inputs, options, &[shape.to_vec()], bound)[0])
    }

    /// Some value: mostly a late one, rarely a constant.
    pub(crate) fn any(&mut self) -> Id {
        let constants = self.random.percent(5);
        let found = self.all(|value| value.kind != Kind::Constant || constants);
        if self.random.percent(50) { *found.last().expect("a graph has inputs") } else { self.random.pick(&found) }
    }

    /// The float values that are so.
    pub(crate) fn all(&self, is_so: impl Fn(&Value) -> bool) -> Vec<Id> {
        let values = self.values.iter().enumerate();
        values.filter(|(_, value)| value.kind != Kind::Setting && is_so(value)).map(|(id, _)| id).collect()
    }

    /// What no node uses is an output, but for a few; some of the rest are as well, and some outputs twice.
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
        let last = self.all(|value| value.kind == Kind::Result).last().copied();
        if self.outputs.is_empty() {
            self.outputs.extend(last);
        }
        if self.random.percent(5) {
            let twice = self.random.pick(&self.outputs);
            self.outputs.push(twice);
        }
        let inputs = self.all(|value| value.kind == Kind::Input);
        self.model.inputs(0, &inputs).outputs(0, &self.outputs);
    }

    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.model.finish()
    }

    /// What an operator may do to its result on the way out; LiteRT's CPU knows no more than these.
    pub(crate) fn activation(&mut self) -> ActivationFunctionType {
        use ActivationFunctionType as A;
        self.random.pick(&[A::NONE, A::NONE, A::NONE, A::RELU, A::RELU6, A::RELU_N1_TO_1])
    }
}

/// How many channels: odd numbers and multiples of 4.
pub(crate) fn channels(random: &mut Random) -> usize {
    random.pick(&[1, 2, 3, 4, 4, 5, 7, 8, 8, 12, 16])
}
