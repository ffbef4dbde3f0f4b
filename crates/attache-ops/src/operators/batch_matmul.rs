//! BATCH_MATMUL: matrix products over the two innermost axes, for each index of the broadcast outer axes.

use std::any::Any;
use std::borrow::Cow;
use std::ops::Range;

#[cfg(not(attache_small))]
use attache_base::Serial;
use attache_base::{Activation, DataType, Shape, broadcast_strides};
use attache_gpu_ir::{IntExpression, Primitive};
use attache_graph::{Cache, Eval, Inferred, Lowering, OpError, TensorRef, Unsupported, WorkingMemory};
use attache_kernels::gemm::{PackedMatrix, gemm};
#[cfg(not(attache_small))]
use attache_kernels::gemm::{StridedMatrix, gemm_once};
use attache_kernels::quantized::{
    self, ColumnScales, Int16x8Matrix, Int16x8Rounding, Operand, PackedIntegers, Rounding, Zero, dynamic_gemm,
    int16x8_gemm,
};
use attache_kernels::{Engine, Isa, movement};
use attache_model::schema::BuiltinOperator;
use bytemuck::Pod;

use crate::shared::contraction::{Arithmetic, RequantizationParameters, ScalePrecision, WeightScales, with_kept};
use crate::shared::exact::is_exact;
use crate::shared::quantized::SUMS_OF_64_BITS;
use crate::shared::support::{countable, product, refuse};
use crate::shared::working::{converted, of_weights, packed};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::BATCH_MATMUL),
    versions: 1..=4,
    inputs: &[input("x"), input("y")],
    parse,
}];

#[derive(Debug)]
struct BatchMatMul {
    /// Whether the left and the right matrices are stored transposed (options `adj_x` and `adj_y`).
    transposed: [bool; 2],
    /// Whether rows of float left matrices are quantized with a zero point, rather than symmetrically, for a
    /// product with 8-bit right matrices.
    is_asymmetric: bool,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_batch_mat_mul_options();
    let transposed = options.map_or([false; 2], |options| [options.adj_x(), options.adj_y()]);
    let is_asymmetric = options.is_some_and(|options| options.asymmetric_quantize_inputs());
    Ok(Box::new(BatchMatMul { transposed, is_asymmetric }))
}

/// The extents `rows` (M), `depth` (K) and `columns` (N) of each matrix product, and how the outer axes of
/// the inputs broadcast.
#[derive(Debug)]
struct BatchedProduct {
    rows: usize,
    depth: usize,
    columns: usize,
    /// The extents of the output's outer axes, to which the outer axes of both inputs broadcast.
    outer: Shape,
    /// Strides of the left and of the right input along the output's outer axes, in matrices; 0 along
    /// broadcast axes.
    steps: [Vec<usize>; 2],
}

impl BatchedProduct {
    fn output(&self) -> Result<Shape, OpError> {
        countable([self.outer.extents(), &[self.rows, self.columns]].concat().into())
    }

    /// Returns an upper bound, in bytes, of the memory that `matrices` packed right matrices take.
    fn packed(&self, data_type: DataType, matrices: usize) -> u64 {
        packed(data_type, matrices, [self.columns, self.depth], self.depth)
    }

    /// Whether each of `right` matrices of floats is packed piece by piece while it is multiplied.
    #[cfg(not(attache_small))]
    fn is_multiplied_at_once(&self, engine: &Engine<'_>, right: usize) -> bool {
        // The rows that are multiplied by each.
        let rows = self.outer.elements() / right.max(1) * self.rows;
        let threads = engine.parallel.threads();
        let divides = right >= threads || self.columns / (2 * engine.isa.lanes()) >= threads;
        let fits = rows.saturating_mul(self.depth) <= FEW_ELEMENTS && divides;
        self.depth <= MOST_TERMS && (rows <= FEW_ROWS || fits)
    }

    /// Returns the index of the left and of the right matrix of product `index`.
    fn pair(&self, index: usize) -> [usize; 2] {
        let (mut rest, mut pair) = (index, [0; 2]);
        for axis in (0..self.outer.rank()).rev() {
            let coordinate = rest % self.outer[axis];
            rest /= self.outer[axis];
            pair = [0, 1].map(|side| pair[side] + coordinate * self.steps[side][axis]);
        }
        pair
    }
}

/// All right matrices are packed before the first product if their packed form takes at most this many times
/// the bytes of the tensor, or at most [`SMALL`] bytes.
const MOST_GROWTH: u64 = 8;
/// Size in bytes up to which all right matrices are packed before the first product in any case.
const SMALL: u64 = 16 << 20;

/// Rows of a product up to which a matrix of floats that is not constant is packed piece by piece while it is multiplied: each
/// thread packs what it needs.
#[cfg(not(attache_small))]
const FEW_ROWS: usize = 24;
/// Elements of all rows up to which this is done for more of them: each piece is multiplied by all rows, which stay in the
/// second-level cache.
#[cfg(not(attache_small))]
const FEW_ELEMENTS: usize = 1 << 16;
/// Terms of a sum up to which this is done: each thread keeps the memory of a piece, which stays in the cache.
#[cfg(not(attache_small))]
const MOST_TERMS: usize = 8192;

/// Returns the number of matrices in a tensor of this shape.
fn matrices(shape: &Shape) -> usize {
    shape[..shape.rank().saturating_sub(2)].iter().product()
}

impl BatchMatMul {
    fn product(&self, left: &Shape, right: &Shape) -> Result<BatchedProduct, OpError> {
        let wrong = || OpError::invalid(format!("{left} and {right} do not multiply"));
        let matrix = |shape: &Shape, side: usize| {
            let (outer, &[rows, columns]) = shape.split_last_chunk::<2>().ok_or_else(wrong)?;
            let matrix = if self.transposed[side] { [columns, rows] } else { [rows, columns] };
            Ok((Shape::from(outer), matrix))
        };
        let ((left_outer, [rows, depth]), (right_outer, [other, columns])) = (matrix(left, 0)?, matrix(right, 1)?);
        let outer = left_outer.broadcast(&right_outer).filter(|_| depth == other).ok_or_else(wrong)?;
        let steps = [&left_outer, &right_outer].map(|from| broadcast_strides(from, &outer));
        Ok(BatchedProduct { rows, depth, columns, outer, steps })
    }

    /// Returns the strides, in elements, of a right matrix along N and along K.
    fn strides(&self, product: &BatchedProduct) -> [usize; 2] {
        if self.transposed[1] { [product.depth, 1] } else { [1, product.columns] }
    }

    /// Whether all right matrices are packed before the first product, rather than each before its own
    /// product. False for many small matrices, whose packed form would take far more memory than the tensor.
    fn is_packed_whole(&self, product: &BatchedProduct, data_type: DataType, right: &Shape) -> bool {
        let stored = data_type.byte_size(right.elements()).map_or(u64::MAX, |bytes| bytes as u64);
        product.packed(data_type, matrices(right)) <= stored.saturating_mul(MOST_GROWTH).max(SMALL)
    }

    /// Calls `multiply` for each product with its block of the output, its range of rows of the left
    /// matrices, and its right matrix, which `pack` packs from its index. Right matrices that are constant
    /// and all packed at once are cached. `parameters` are those of one packed matrix.
    fn multiply_each<T, P: Any + Send + Sync>(
        &self,
        (product, right): (&BatchedProduct, TensorRef<'_>),
        cache: &mut Cache,
        output: &mut [T],
        (parameters, pack): (impl Fn() -> Vec<usize>, impl Fn(usize) -> P),
        mut multiply: impl FnMut(&mut [T], Range<usize>, &P),
    ) {
        let count = matrices(right.shape);
        if self.is_packed_whole(product, right.data_type, right.shape) {
            let all = || (0..count).map(&pack).collect::<Vec<P>>();
            let all_parameters = || [vec![count], parameters()].concat();
            return with_kept(cache, &[Some(right)], all_parameters, all, |packed| {
                self.each(product, count, output, |output, rows, index| multiply(output, rows, &packed[index]));
            });
        }
        self.each(product, count, output, |output, rows, index| multiply(output, rows, &pack(index)));
    }

    /// Returns the left matrices in row-major order; a transposed copy where they are stored transposed.
    fn rows<'a, T: Pod + Send + Sync>(&self, engine: Engine, product: &BatchedProduct, left: &'a [T]) -> Cow<'a, [T]> {
        if !self.transposed[0] {
            return Cow::Borrowed(left);
        }
        let mut rows = vec![T::zeroed(); left.len()];
        let size = product.rows * product.depth;
        for (source, target) in left.chunks_exact(size).zip(rows.chunks_exact_mut(size)) {
            movement::transpose(engine, source, &[product.depth, product.rows], &[1, 0], target);
        }
        Cow::Owned(rows)
    }

    /// Calls `multiply` for each product with its block of the output, its range of rows of the left
    /// matrices, and the index of its right matrix. `right` is the number of right matrices; if it is 1, all
    /// left matrices are multiplied as one tall matrix.
    fn each<T>(
        &self,
        product: &BatchedProduct,
        right: usize,
        output: &mut [T],
        mut multiply: impl FnMut(&mut [T], Range<usize>, usize),
    ) {
        let BatchedProduct { rows, columns, .. } = *product;
        if right == 1 {
            let all = output.len() / columns;
            return multiply(output, 0..all, 0);
        }
        for (index, output) in output.chunks_exact_mut(rows * columns).enumerate() {
            let [left, right] = product.pair(index);
            multiply(output, left * rows..(left + 1) * rows, right);
        }
    }

    /// Calls `multiply` as [`Self::each`] does. If there are as many products as threads, each is computed on one thread.
    #[cfg(not(attache_small))]
    fn each_on_threads<T: Send>(
        &self,
        engine: Engine<'_>,
        product: &BatchedProduct,
        right: usize,
        output: &mut [T],
        multiply: impl Fn(Engine<'_>, &mut [T], Range<usize>, usize) + Sync,
    ) {
        let BatchedProduct { rows, depth, columns, .. } = *product;
        let (size, lanes) = (rows * columns, engine.isa.lanes());
        let count = output.len() / size;
        if right == 1 || count < engine.parallel.threads() {
            return self.each(product, right, output, |output, rows, index| multiply(engine, output, rows, index));
        }
        let nanoseconds = (output.len() * (depth + 4)) as f64 / (4 * lanes) as f64;
        engine.for_each_part(output, size, engine.tasks(nanoseconds, count), |first, output| {
            let engine = Engine { isa: engine.isa, parallel: &Serial };
            for (index, output) in (first..).zip(output.chunks_exact_mut(size)) {
                let [left, right] = product.pair(index);
                multiply(engine, output, left * rows..(left + 1) * rows, right);
            }
        });
    }

    fn eval_floats(&self, eval: &mut Eval<'_>, product: &BatchedProduct) -> Result<(), OpError> {
        let (engine, left, right) = (Engine::new(eval.parallel), eval.input(0)?, eval.input(1)?);
        let BatchedProduct { depth, columns, .. } = *product;
        let (left, values, output) = (left.values()?, right.values()?, eval.outputs[0].values()?);
        let (left, everything) = (self.rows(engine, product, left), (f32::NEG_INFINITY, f32::INFINITY));
        let (size, strides) = (depth * columns, self.strides(product));
        #[cfg(not(attache_small))]
        if !right.is_constant && product.is_multiplied_at_once(&engine, matrices(right.shape)) {
            self.each_on_threads(engine, product, matrices(right.shape), output, |engine, output, rows, index| {
                let matrix =
                    StridedMatrix { values: &values[index * size..][..size], outputs: columns, depth, strides };
                gemm_once(engine, rows.len(), &left[rows.start * depth..rows.end * depth], matrix, output);
            });
            return Ok(());
        }
        let pack = |index: usize| {
            let matrix = &values[index * size..][..size];
            PackedMatrix::pack_strided(engine.isa, [columns, depth], matrix, strides, None)
        };
        let packed = (|| PackedMatrix::parameters(columns, depth), pack);
        self.multiply_each((product, right), eval.cache, output, packed, |output, rows, matrix| {
            let left = &left[rows.start * depth..rows.end * depth];
            gemm(engine, rows.len(), left, depth, matrix, output, columns, everything);
        });
        Ok(())
    }

    /// Packs the 8-bit right matrix with this index, for left matrices whose zero point is `left`.
    fn pack_bytes(
        &self,
        isa: Isa,
        product: &BatchedProduct,
        right: Operand<'_>,
        left: Zero,
        index: usize,
    ) -> PackedIntegers {
        let BatchedProduct { depth, columns, .. } = *product;
        let bytes = &right.bytes[index * depth * columns..][..depth * columns];
        let strides = self.strides(product);
        PackedIntegers::pack(isa, [columns, depth], Operand { bytes, ..right }, strides, depth, None, left)
    }

    fn eval_bytes(&self, eval: &mut Eval<'_>, product: &BatchedProduct) -> Result<(), OpError> {
        let (engine, left, right) = (Engine::new(eval.parallel), eval.input(0)?, eval.input(1)?);
        let requantization =
            RequantizationParameters::new(&left, one_scale(&right)?, &eval.outputs[0], Activation::None)?;
        let epilogue = requantization.requantize(product.columns, Rounding::Twice, ScalePrecision::Single);
        let (rows, zero, depth) = (self.rows(engine, product, left.bytes), requantization.input(), product.depth);
        let output = &mut *eval.outputs[0].bytes;
        let pack = |index| self.pack_bytes(engine.isa, product, requantization.weights(right.bytes), zero, index);
        let packed = (|| PackedIntegers::parameters(product.columns, depth, depth), pack);
        self.multiply_each((product, right), eval.cache, output, packed, |output, range, matrix| {
            let left = &rows[range.start * depth..range.end * depth];
            quantized::gemm(engine, left, zero.signed, &[zero.point], matrix, &epilogue, output);
        });
        Ok(())
    }

    fn eval_int16x8(&self, eval: &mut Eval<'_>, product: &BatchedProduct) -> Result<(), OpError> {
        let (engine, left, right) = (Engine::new(eval.parallel), eval.input(0)?, eval.input(1)?);
        let requantization =
            RequantizationParameters::new(&left, one_scale(&right)?, &eval.outputs[0], Activation::None)?;
        let epilogue = requantization.int16x8(Int16x8Rounding::Short, ScalePrecision::Single)?;
        let BatchedProduct { depth, columns, .. } = *product;
        let point = requantization.weight_zero_point() as i16;
        let numbers: Vec<i16> = match right.data_type {
            DataType::Int16 if point != 0 => return Err(OpError::invalid("16-bit numbers whose zero is not 0")),
            DataType::Int16 => right.values::<i16>()?.to_vec(),
            _ => right.values::<i8>()?.iter().map(|number| i16::from(*number) - point).collect(),
        };
        let (size, strides) = (depth * columns, self.strides(product));
        let turn = |index: usize| {
            let matrix = &numbers[index * size..][..size];
            let places = (0..columns).flat_map(|n| (0..depth).map(move |k| n * strides[0] + k * strides[1]));
            Int16x8Matrix::new(columns, &places.map(|place| matrix[place]).collect::<Vec<_>>(), None)
        };
        let (rows, output) = (self.rows(engine, product, left.values::<i16>()?), eval.outputs[0].values()?);
        let packed = (|| Int16x8Matrix::parameters(columns, depth), turn);
        self.multiply_each((product, right), eval.cache, output, packed, |output, range, matrix| {
            let left = &rows[range.start * depth..range.end * depth];
            int16x8_gemm(engine, left, matrix, &epilogue, output);
        });
        Ok(())
    }

    /// Multiplies float matrices by 8-bit matrices: each row of the left matrices is quantized to bytes, and
    /// the 32-bit sums are rescaled to floats.
    fn eval_dynamic(&self, eval: &mut Eval<'_>, product: &BatchedProduct) -> Result<(), OpError> {
        let (engine, left, right) = (Engine::new(eval.parallel), eval.input(0)?, eval.input(1)?);
        let scales = one_scale(&right)?.symmetric(right.data_type)?;
        let BatchedProduct { depth, columns, .. } = *product;
        let (rows, output) = (self.rows(engine, product, left.values()?), eval.outputs[0].values()?);
        let operand = Operand { bytes: right.bytes, zero: Zero { signed: true, point: 0 } };
        let pack = |index| self.pack_bytes(engine.isa, product, operand, Zero::UNKNOWN, index);
        let packed = (|| PackedIntegers::parameters(product.columns, depth, depth), pack);
        let scales = ColumnScales::new(scales.scales, None, columns);
        self.multiply_each((product, right), eval.cache, output, packed, |output, range, matrix| {
            let left = (&rows[range.start * depth..range.end * depth], !self.is_asymmetric);
            dynamic_gemm(engine, left, matrix, &scales, (f32::NEG_INFINITY, f32::INFINITY), output);
        });
        Ok(())
    }
}

/// Returns the scale and zero point of the right matrices; fails where they have several scales.
fn one_scale<'a>(right: &TensorRef<'a>) -> Result<WeightScales<'a>, OpError> {
    match WeightScales::new(right.data_type, right.quantization, usize::MAX, None)? {
        scales if scales.scales.len() == 1 => Ok(scales),
        _ => Err(OpError::unsupported("a right matrix with several scales")),
    }
}

impl BatchMatMul {
    /// Emits the product of 8-bit matrices: 32-bit sums, requantized to the output's scale. Refuses matrices
    /// with 16-bit elements.
    fn lower_stored(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let [left, right] = [lowering.input_fact(0)?, lowering.input_fact(1)?];
        if arithmetic(left.data_type, right.data_type).map_err(refuse)? != Arithmetic::Bytes {
            return Err(Unsupported::new(SUMS_OF_64_BITS));
        }
        let scales = WeightScales::new(right.data_type, right.quantization.as_ref(), usize::MAX, None);
        let scales = scales.map_err(refuse)?;
        if scales.scales.len() != 1 {
            return Err(Unsupported::new("a right matrix with several scales"));
        }
        let requantization = RequantizationParameters::of(lowering, [0, 1], scales, Activation::None)?;
        let mut matrices = Vec::with_capacity(2);
        for (index, zero_point) in requantization.zero_points().into_iter().enumerate() {
            let (shape, stored) = (lowering.input_shape(index)?, lowering.input(index)?);
            matrices.push(lowering.int_map(IntExpression::Input(0).plus(-zero_point), shape, &[stored])?);
        }
        let sums = lowering.emit(Primitive::MatMul { transposed: self.transposed, order: Vec::new() }, &matrices)?;
        let output = requantization.finish(lowering, sums, Rounding::Twice, ScalePrecision::Single)?;
        lowering.output(0, output)
    }
}

/// Returns the arithmetic for left and right matrices of these types; fails for unsupported pairs.
fn arithmetic(left: DataType, right: DataType) -> Result<Arithmetic, OpError> {
    match (left, right) {
        (DataType::Int16, DataType::Int16) => Ok(Arithmetic::Wide),
        (_, DataType::Int4 | DataType::Int2 | DataType::UInt8) => {
            Err(OpError::unsupported(format!("a right matrix of type {right}")))
        }
        _ => Arithmetic::of(left, right),
    }
}

impl Operator for BatchMatMul {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [left, right] = inputs.required();
        let data_type = left.data_type;
        if arithmetic(data_type, right.data_type)? != Arithmetic::Float {
            WeightScales::new(right.data_type, right.quantization.as_ref(), usize::MAX, None)?;
        }
        let (Some(left), Some(right)) = (&left.shape, &right.shape) else {
            return Ok(vec![Inferred::unknown(data_type)]);
        };
        Ok(vec![Inferred::new(data_type, self.product(left, right)?.output()?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let multiplied = self.product((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        Some(product(&multiplied.outer).saturating_mul(product(&[
            multiplied.rows,
            multiplied.depth,
            multiplied.columns,
        ])))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let [left, right] = inputs.required();
        let (from, shape) = (left.shape.as_ref()?, right.shape.as_ref()?);
        let product = self.product(from, shape).ok()?;
        let memory = match self.is_packed_whole(&product, right.data_type, shape) {
            true => of_weights(right, product.packed(right.data_type, matrices(shape))),
            false => WorkingMemory { kept: 0, scratch: product.packed(right.data_type, 1) },
        };
        let both = converted(from).saturating_add(converted(shape));
        Some(WorkingMemory { scratch: memory.scratch.saturating_add(both), ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (left, right) = (eval.input(0)?, eval.input(1)?);
        let product = self.product(left.shape, right.shape)?;
        let arithmetic = arithmetic(left.data_type, right.data_type)?;
        match arithmetic {
            Arithmetic::Float | Arithmetic::Dynamic if product.depth == 0 => eval.outputs[0].bytes.fill(0),
            _ if product.depth == 0 => return Err(OpError::unsupported("empty sums of quantized numbers")),
            Arithmetic::Float => self.eval_floats(eval, &product)?,
            Arithmetic::Bytes => self.eval_bytes(eval, &product)?,
            Arithmetic::Wide => self.eval_int16x8(eval, &product)?,
            Arithmetic::Dynamic => self.eval_dynamic(eval, &product)?,
        }
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        if is_exact(lowering, 0) {
            return self.lower_stored(lowering);
        }
        let inputs = [lowering.float_input(0)?, lowering.float_input(1)?];
        let output = lowering.emit(Primitive::MatMul { transposed: self.transposed, order: Vec::new() }, &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_axes_broadcast() {
        let op = BatchMatMul { transposed: [true, false], is_asymmetric: false };
        let product = op.product(&[2, 1, 4, 3].into(), &[5, 4, 6].into()).unwrap();
        assert_eq!(product.output().unwrap(), Shape::from([2, 5, 3, 6]));
        assert_eq!((product.pair(0), product.pair(4), product.pair(7)), ([0, 0], [0, 4], [1, 2]));
        assert!(op.product(&[3, 4].into(), &[4, 6].into()).is_err());
        assert!(op.product(&[4].into(), &[4, 6].into()).is_err());
        assert!(op.product(&[2, 4, 3].into(), &[3, 4, 6].into()).is_err());
    }
}
