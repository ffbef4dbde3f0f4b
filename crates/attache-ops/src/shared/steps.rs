//! Recurrent operators on a device: the products of all times of a sequence are computed at once, those of the outputs of
//! the previous time step by step, unrolled.

use attache_base::{Constant, DataType, Element, Shape};
use attache_gpu_ir::{ConvolutionGeometry, Primitive, ValueId};
use attache_graph::{Lowering, TensorRef, Unsupported};

use crate::shared::byte_products::dequantized;
use crate::shared::sequence_lstm::Layout;
use crate::shared::support::refuse;
use crate::shared::view::{Along, View};

/// Maximum number of times of a sequence, each of which takes dispatches of its own.
const MOST_TIMES: usize = 256;

/// The times and sequences of the input and of the output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) layout: Layout,
    pub(crate) times: usize,
    pub(crate) batches: usize,
    pub(crate) is_reversed: bool,
}

impl Steps {
    /// Fails if there are more times than a device unrolls.
    pub(crate) fn check(&self) -> Result<(), Unsupported> {
        match self.times {
            0..=MOST_TIMES => Ok(()),
            times => Err(Unsupported::new(format!("a sequence of {times} times; a device unrolls up to {MOST_TIMES}"))),
        }
    }

    /// Fails if the matrix by which outputs are multiplied at each time is too large: a device has it once for each.
    pub(crate) fn check_weights(&self, lowering: &Lowering<'_>, matrix: &Matrix) -> Result<(), Unsupported> {
        const MOST: usize = 256 << 20;
        let bytes = lowering.shape(matrix.0).elements().saturating_mul(4 * self.times);
        match bytes <= MOST {
            true => Ok(()),
            false => Err(Unsupported::new(format!("{bytes} bytes of weights for {} times; up to {MOST}", self.times))),
        }
    }

    /// Returns the times in the order in which they are computed.
    pub(crate) fn order(self) -> impl Iterator<Item = usize> {
        (0..self.times).map(move |step| if self.is_reversed { self.times - 1 - step } else { step })
    }

    /// Emits the features of one time, `[batches, features]`, of a value that has a row for each time of each sequence.
    pub(crate) fn at(&self, lowering: &mut Lowering<'_>, rows: ValueId, time: usize) -> Result<ValueId, Unsupported> {
        let features = lowering.shape(rows).last().copied().unwrap_or(1);
        let whole = Shape::from([self.batches, features]);
        let fixed = Along { axis: 0, begin: time as i64, stride: 0 };
        let (shape, outer) = match self.layout {
            _ if self.times == 1 => return lowering.reshape(rows, &whole),
            Layout::BatchMajor => ([self.batches, self.times, features], [Along::whole(0), fixed]),
            Layout::TimeMajor | Layout::OneStep => ([self.times, self.batches, features], [fixed, Along::whole(0)]),
        };
        let rows = lowering.reshape(rows, &shape.into())?;
        View { output: whole, coordinates: vec![outer[0], outer[1], Along::whole(1)] }.lower(lowering, rows)
    }

    /// Emits the values of all times, `[batches, features]` each and in the order of [`Steps::order`], as one tensor of the
    /// shape `output`.
    pub(crate) fn joined(
        &self,
        lowering: &mut Lowering<'_>,
        mut values: Vec<ValueId>,
        output: &Shape,
    ) -> Result<ValueId, Unsupported> {
        if self.is_reversed {
            values.reverse();
        }
        let axis = usize::from(self.layout == Layout::BatchMajor);
        let features = output.last().copied().unwrap_or(1);
        let shape = if axis == 1 { [self.batches, 1, features] } else { [1, self.batches, features] };
        for value in &mut values {
            *value = lowering.reshape(*value, &shape.into())?;
        }
        let joined = match values[..] {
            [value] => value,
            _ => lowering.emit(Primitive::Concatenate { axis }, &values)?,
        };
        lowering.reshape(joined, output)
    }
}

/// A matrix `[outputs, features]` by which rows of features are multiplied: the filter of a convolution of 1 × 1 images.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix(ValueId);

impl Matrix {
    /// Takes weights as a matrix. Floats are stored in f32 in every precision, since states carry rounding errors from step to
    /// step.
    pub(crate) fn new(lowering: &mut Lowering<'_>, weights: ValueId) -> Result<Self, Unsupported> {
        let filter = filter(lowering, weights)?;
        let known = lowering.constant_of(weights).filter(|constant| constant.data_type == DataType::Float32).cloned();
        let weights = match known {
            Some(constant) => lowering.precise_constant(constant)?,
            None => weights,
        };
        lowering.reshape(weights, &filter).map(Self)
    }

    /// Emits the products of rows of features and the rows of the matrix, `[rows, features] × [outputs, features]ᵀ + bias`,
    /// and returns them.
    pub(crate) fn times(
        self,
        lowering: &mut Lowering<'_>,
        data: ValueId,
        bias: Option<ValueId>,
    ) -> Result<ValueId, Unsupported> {
        self.times_from(lowering, data, bias, 0)
    }

    /// Emits products like [`Matrix::times`], of integers from which `zero_point` is subtracted if the data are integers.
    pub(crate) fn times_from(
        self,
        lowering: &mut Lowering<'_>,
        data: ValueId,
        bias: Option<ValueId>,
        zero_point: i32,
    ) -> Result<ValueId, Unsupported> {
        let filter = lowering.shape(self.0);
        let (outputs, features) = (filter[0], filter[3]);
        let rows = lowering.shape(data).elements() / features.max(1);
        let image = lowering.reshape(data, &[rows, 1, 1, features].into())?;
        let pointwise = ConvolutionGeometry::pointwise([1, 1]);
        let product = Primitive::Convolution(ConvolutionGeometry { zero_points: [zero_point, 0], ..pointwise });
        let operands: Vec<ValueId> = [image, self.0].into_iter().chain(bias).collect();
        let sums = lowering.emit(product, &operands)?;
        lowering.reshape(sums, &[rows, outputs].into())
    }
}

/// Returns the shape of the filter that a matrix becomes.
fn filter(lowering: &Lowering<'_>, weights: ValueId) -> Result<Shape, Unsupported> {
    match lowering.shape(weights).extents() {
        &[outputs, features] => Ok([outputs, 1, 1, features].into()),
        other => Err(Unsupported::new(format!("weights of the shape {other:?}, which are no matrix"))),
    }
}

/// Returns a matrix of float weights. Those that are declared as UINT8 are signed nevertheless.
pub(crate) fn weights(lowering: &mut Lowering<'_>, index: usize) -> Result<ValueId, Unsupported> {
    let stored = lowering.stored_input(index)?;
    let is_seen_as_floats = lowering.input_fact(index)?.data_type == DataType::Float32;
    if stored.data_type != DataType::UInt8 || !is_seen_as_floats {
        return lowering.float_input(index);
    }
    let constant =
        stored.constant.as_ref().ok_or_else(|| Unsupported::new(format!("input {index} is not constant")))?;
    let elements = constant.shape.elements();
    let bytes = constant.bytes.get(..elements).ok_or_else(|| Unsupported::new("weights without elements"))?;
    let (data_type, quantization) = (stored.data_type, stored.quantization.as_ref());
    let tensor = TensorRef { data_type, shape: &constant.shape, bytes, quantization, is_constant: true };
    let values = dequantized(&tensor).map_err(refuse)?;
    lowering.constant(Constant::from_values(constant.shape.clone(), &values))
}

/// Returns biases as floats. Those of integers are in units of `unit`, and constant.
pub(crate) fn biases(lowering: &mut Lowering<'_>, index: usize, unit: f32) -> Result<ValueId, Unsupported> {
    let stored = lowering.stored_input(index)?;
    if stored.data_type == DataType::Float32 {
        return lowering.float_input(index);
    }
    let known = stored.constant.as_ref().and_then(|constant| constant.integers());
    let known = known.ok_or_else(|| Unsupported::new(format!("input {index} is not constant")))?;
    let values: Vec<f32> = known.into_iter().map(|value| value as f32 * unit).collect();
    lowering.constant(Constant::from_values([values.len()], &values))
}

/// Returns matrices or vectors of one type one below the other, joined beforehand if all are constant.
pub(crate) fn stacked(lowering: &mut Lowering<'_>, parts: &[ValueId]) -> Result<ValueId, Unsupported> {
    let known: Option<Vec<&Constant>> = parts.iter().map(|part| lowering.constant_of(*part)).collect();
    match known.and_then(|known| joined(&known)) {
        Some(joined) => lowering.constant(joined),
        None => lowering.emit(Primitive::Concatenate { axis: 0 }, parts),
    }
}

/// Returns constants one below the other; `None` if they are neither all of floats nor of one type of integers.
fn joined(parts: &[&Constant]) -> Option<Constant> {
    let mut shape = parts.first()?.shape.to_vec();
    *shape.first_mut()? = parts.iter().map(|part| part.shape.first().copied().unwrap_or(1)).sum();
    let are = |data_type| parts.iter().all(|part| part.data_type == data_type);
    if are(DataType::Int8) {
        return values::<i8>(parts).map(|values| Constant::from_vec(shape, values));
    }
    if are(DataType::Int32) {
        return values::<i32>(parts).map(|values| Constant::from_vec(shape, values));
    }
    let floats = parts.iter().map(|part| part.floats()).collect::<Option<Vec<_>>>()?;
    Some(Constant::from_vec(shape, floats.concat()))
}

/// Returns the elements of constants one after the other; `None` if one has another type.
fn values<T: Element>(parts: &[&Constant]) -> Option<Vec<T>> {
    let values = parts.iter().map(|part| part.values::<T>()).collect::<Option<Vec<_>>>()?;
    Some(values.concat())
}
