//! Recurrent units, `h' = activation(W × x + V × y + R × h + b)`, over the times of a sequence: code of the operators that run a
//! single step, a sequence, or a sequence in both directions. The second input `y` is optional.
//!
//! Weights may have 8 bits: inputs and outputs are then quantized to bytes, with one scale for each row.

use attache_base::{Activation, DataType, Serial, Shape};
use attache_gpu_ir::Expression::Input;
use attache_gpu_ir::ValueId;
use attache_graph::{Eval, Lowering, OpError, TensorRef, Unsupported};
use attache_kernels::gemm::multiply_row;
use attache_kernels::{Engine, scratch};

use crate::Facts;
use crate::definition::one_of;
use crate::shared::byte_products::{Bytes, Matrix};
use crate::shared::sequence_lstm::Layout;
use crate::shared::steps::{Matrix as Product, Steps, weights};

/// Indices, among an operator's inputs, of the tensors of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    pub(crate) input: usize,
    pub(crate) weights: usize,
    pub(crate) recurrent: usize,
    pub(crate) bias: usize,
    /// The variable with the output of the previous step.
    pub(crate) state: usize,
    /// The second input and its weights.
    pub(crate) auxiliary: Option<[usize; 2]>,
    pub(crate) is_reversed: bool,
}

/// The attributes that all directions share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recurrent {
    pub(crate) activation: Activation,
    pub(crate) layout: Layout,
    /// Whether floats are quantized with a zero point, for products with 8-bit weights.
    pub(crate) is_asymmetric: bool,
}

/// Extents of the tensors of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Extents {
    pub(crate) times: usize,
    pub(crate) batches: usize,
    depth: usize,
    /// Number of features of the second input; 0 where there is none.
    auxiliary: usize,
    pub(crate) units: usize,
}

impl Extents {
    fn rows(&self, layout: Layout) -> Vec<usize> {
        match layout {
            Layout::BatchMajor => vec![self.batches, self.times],
            Layout::TimeMajor => vec![self.times, self.batches],
            Layout::OneStep => vec![self.batches],
        }
    }

    /// Returns the shape of an output with so many features.
    pub(crate) fn output(&self, layout: Layout, features: usize) -> Shape {
        [&self.rows(layout)[..], &[features]].concat().into()
    }
}

impl Places {
    /// Checks the types of the inputs of this direction, and that the state is a variable.
    pub(crate) fn check(&self, inputs: Facts<'_>) -> Result<(), OpError> {
        let weights = inputs.fact(self.weights).data_type;
        one_of(
            format_args!("input {} (weights)", self.weights),
            weights,
            &[DataType::Float32, DataType::Int8, DataType::UInt8],
        )?;
        let matrices = [Some(self.recurrent), self.auxiliary.map(|[_, weights]| weights)];
        let floats = [Some(self.input), Some(self.bias), Some(self.state), self.auxiliary.map(|[input, _]| input)];
        let matrices = matrices.into_iter().flatten().map(|index| (index, weights));
        for (index, expected) in matrices.chain(floats.into_iter().flatten().map(|index| (index, DataType::Float32))) {
            one_of(format_args!("input {index}"), inputs.fact(index).data_type, &[expected])?;
        }
        match inputs.fact(self.state).is_variable {
            true => Ok(()),
            false => Err(OpError::invalid(format!("input {} is no variable", self.state))),
        }
    }

    /// Derives the extents from the shapes of the inputs; fails where they do not fit each other.
    pub(crate) fn extents(&self, layout: Layout, shapes: &[Option<&Shape>]) -> Result<Extents, OpError> {
        let list = |index: usize| shapes.get(index).copied().flatten().map(|shape| shape.extents());
        let wrong = |index: usize| match list(index) {
            Some(shape) => OpError::invalid(format!("input {index} of shape {shape:?} does not fit the others")),
            None => OpError::invalid(format!("input {index} is missing")),
        };
        let (times, batches, depth) = match (layout, list(self.input)) {
            (Layout::BatchMajor, Some(&[batches, times, depth])) => (times, batches, depth),
            (Layout::TimeMajor, Some(&[times, batches, depth])) => (times, batches, depth),
            (Layout::OneStep, Some(&[batches, depth])) => (1, batches, depth),
            _ => return Err(wrong(self.input)),
        };
        let Some(&[units, _]) = list(self.weights) else { return Err(wrong(self.weights)) };
        let auxiliary = match self.auxiliary.map(|[input, _]| (input, list(input))) {
            None => 0,
            Some((_, Some(&[.., features]))) => features,
            Some((input, _)) => return Err(wrong(input)),
        };
        let extents = Extents { times, batches, depth, auxiliary, units };
        let is = |index: usize, expected: &[usize]| match list(index) == Some(expected) {
            true => Ok(()),
            false => Err(wrong(index)),
        };
        is(self.weights, &[units, depth])?;
        is(self.recurrent, &[units, units])?;
        is(self.bias, &[units])?;
        is(self.state, &[batches, units])?;
        if let Some([input, weights]) = self.auxiliary {
            is(input, extents.output(layout, auxiliary).extents())?;
            is(weights, &[units, auxiliary])?;
        }
        Ok(extents)
    }
}

/// A matrix of weights, in floats or in bytes.
enum Weights<'a> {
    Floats { weights: &'a [f32], depth: usize },
    Bytes { matrix: Matrix<'a>, is_asymmetric: bool },
}

impl<'a> Weights<'a> {
    fn new(weights: &TensorRef<'a>, depth: usize, is_asymmetric: bool) -> Result<Self, OpError> {
        match weights.data_type {
            DataType::Float32 => Ok(Self::Floats { weights: weights.values()?, depth }),
            _ => Ok(Self::Bytes { matrix: Matrix::new(weights)?, is_asymmetric }),
        }
    }

    /// Adds the product of the matrix and a vector to `sums`.
    fn add_to(&self, sums: &mut [f32], vector: &[f32]) {
        match self {
            Self::Floats { weights, depth } => {
                scratch::with(sums.len(), |products: &mut [f32]| {
                    multiply_row(Engine::new(&Serial), &vector[..*depth], weights, products);
                    sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += *product);
                });
            }
            Self::Bytes { matrix, is_asymmetric } => matrix.add_to(sums, &Bytes::new(vector, *is_asymmetric)),
        }
    }
}

impl Recurrent {
    fn activate(&self, x: f32) -> f32 {
        self.activation.bounds().map_or_else(|| x.tanh(), |(low, high)| x.max(low).min(high))
    }

    /// Runs all steps of one direction, starting from the value of its state variable, which it updates. Calls `write` with
    /// each row of the output and its index.
    pub(crate) fn run(
        &self,
        eval: &mut Eval<'_>,
        places: &Places,
        extents: &Extents,
        mut write: impl FnMut(usize, &[f32]),
    ) -> Result<(), OpError> {
        let Extents { times, batches, depth, auxiliary, units } = *extents;
        let input = eval.input(places.input)?.values::<f32>()?;
        let weights = |index, depth| Weights::new(&eval.input(index)?, depth, self.is_asymmetric);
        let (own, recurrent) = (weights(places.weights, depth)?, weights(places.recurrent, units)?);
        let second = places
            .auxiliary
            .map(|[input, index]| Ok::<_, OpError>((eval.input(input)?.values::<f32>()?, weights(index, auxiliary)?)));
        let second = second.transpose()?;
        let bias = eval.input(places.bias)?.values::<f32>()?;
        let mut state = eval.input(places.state)?.values::<f32>()?.to_vec();
        let mut sums = vec![0.0; units];
        for step in 0..times {
            let time = if places.is_reversed { times - 1 - step } else { step };
            for (batch, state) in state.chunks_exact_mut(units.max(1)).enumerate().take(batches) {
                let row = if self.layout == Layout::BatchMajor { batch * times + time } else { time * batches + batch };
                sums.copy_from_slice(bias);
                own.add_to(&mut sums, &input[row * depth..][..depth]);
                if let Some((values, weights)) = &second {
                    weights.add_to(&mut sums, &values[row * auxiliary..][..auxiliary]);
                }
                recurrent.add_to(&mut sums, state);
                state.iter_mut().zip(&sums).for_each(|(state, sum)| *state = self.activate(*sum));
                write(row, state);
            }
        }
        eval.host.set_state(places.state, bytemuck::cast_slice(&state))
    }

    /// Emits all steps of one direction and returns its output.
    pub(crate) fn lower(
        &self,
        lowering: &mut Lowering<'_>,
        places: &Places,
        extents: &Extents,
    ) -> Result<ValueId, Unsupported> {
        let Extents { times, batches, units, .. } = *extents;
        let steps = Steps { layout: self.layout, times, batches, is_reversed: places.is_reversed };
        steps.check()?;
        let (matrix, recurrent) = (weights(lowering, places.weights)?, weights(lowering, places.recurrent)?);
        let (matrix, recurrent) = (Product::new(lowering, matrix)?, Product::new(lowering, recurrent)?);
        steps.check_weights(lowering, &recurrent)?;
        let (input, bias) = (lowering.float_input(places.input)?, lowering.float_input(places.bias)?);
        let mut sums = matrix.times(lowering, input, Some(bias))?;
        if let Some([other, matrix]) = places.auxiliary {
            let (other, matrix) = (lowering.float_input(other)?, weights(lowering, matrix)?);
            let others = Product::new(lowering, matrix)?.times(lowering, other, None)?;
            let shape = lowering.shape(sums).clone();
            sums = lowering.map(Input(0).add(Input(1)), &shape, &[others, sums])?;
        }
        let unit = Input(0).add(Input(1)).activation(self.activation);
        let unit = unit.ok_or_else(|| Unsupported::new(format!("the fused activation {:?}", self.activation)))?;
        let mut state = lowering.float_input(places.state)?;
        let mut outputs = Vec::with_capacity(times);
        for time in steps.order() {
            let of_input = steps.at(lowering, sums, time)?;
            let of_output = recurrent.times(lowering, state, None)?;
            state = lowering.map(unit.clone(), &[batches, units].into(), &[of_output, of_input])?;
            outputs.push(state);
        }
        lowering.set_state(places.state, state)?;
        steps.joined(lowering, outputs, &extents.output(self.layout, units))
    }
}

/// Returns the shapes of the inputs of a node; `None` for inputs that are left out.
pub(crate) fn input_shapes<'a>(lowering: &Lowering<'a>) -> Result<Vec<Option<&'a Shape>>, Unsupported> {
    let shape = |index| lowering.has_input(index).then(|| lowering.input_shape(index)).transpose();
    (0..lowering.input_count()).map(shape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_belong_together() {
        let places = Places {
            input: 0,
            weights: 1,
            recurrent: 2,
            bias: 3,
            state: 4,
            auxiliary: Some([5, 6]),
            is_reversed: false,
        };
        let shapes: [Shape; 7] = [
            [2, 3, 4].into(),
            [5, 4].into(),
            [5, 5].into(),
            [5].into(),
            [2, 5].into(),
            [2, 3, 6].into(),
            [5, 6].into(),
        ];
        let of = |shapes: &[Shape; 7]| places.extents(Layout::BatchMajor, &shapes.each_ref().map(Some));
        assert_eq!(of(&shapes).unwrap(), Extents { times: 3, batches: 2, depth: 4, auxiliary: 6, units: 5 });
        for index in 0..7 {
            let mut wrong = shapes.clone();
            wrong[index] = [7].into();
            assert!(of(&wrong).is_err(), "{index}");
        }
        assert!(places.extents(Layout::OneStep, &shapes.each_ref().map(Some)).is_err());
    }
}
