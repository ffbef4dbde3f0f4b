//! BATCH_MATMUL: the product of matrices, the two innermost axes, for each index of the outer axes, which broadcast.

use std::sync::Arc;

use attache_base::{DataType, Shape, broadcast_strides};
use attache_gpu_ir::Primitive;
use attache_graph::{Eval, Fact, Inferred, Lowering, Op, OpError, Refusal};
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_kernels::{Engine, movement};
use attache_model::schema::BuiltinOperator;

use crate::support::{arity, countable, is_empty, one_of, product, required};
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::BATCH_MATMUL), versions: 1..=4, parse }];

/// Inputs: left and right matrices.
#[derive(Debug)]
struct BatchMatMul {
    /// Whether the left and the right matrices are transposed first.
    transposed: [bool; 2],
}

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_batch_mat_mul_options();
    let transposed = options.map_or([false; 2], |options| [options.adj_x(), options.adj_y()]);
    Ok(Arc::new(BatchMatMul { transposed }))
}

/// One product's extents and how products are paired.
#[derive(Debug)]
struct Product {
    rows: usize,
    depth: usize,
    columns: usize,
    /// The output's outer axes.
    outer: Shape,
    /// Matrices between neighbours along the outer axes, of the left and of the right input.
    steps: [Vec<usize>; 2],
}

impl Product {
    fn output(&self) -> Result<Shape, OpError> {
        countable([self.outer.extents(), &[self.rows, self.columns]].concat().into())
    }

    /// The left and the right matrix of product `index`.
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

impl BatchMatMul {
    fn product(&self, left: &Shape, right: &Shape) -> Result<Product, OpError> {
        let wrong = || OpError::invalid(format!("{left} and {right} do not multiply"));
        let matrix = |shape: &Shape, side: usize| {
            let (outer, &[rows, columns]) = shape.split_last_chunk::<2>().ok_or_else(wrong)?;
            let matrix = if self.transposed[side] { [columns, rows] } else { [rows, columns] };
            Ok((Shape::from(outer), matrix))
        };
        let ((left_outer, [rows, depth]), (right_outer, [other, columns])) = (matrix(left, 0)?, matrix(right, 1)?);
        let outer = left_outer.broadcast(&right_outer).filter(|_| depth == other).ok_or_else(wrong)?;
        let steps = [&left_outer, &right_outer].map(|from| broadcast_strides(from, &outer));
        Ok(Product { rows, depth, columns, outer, steps })
    }

    /// The right matrices, packed one by one.
    fn pack(&self, engine: Engine<'_>, product: &Product, right: &[f32]) -> Vec<PackedMatrix> {
        let Product { depth, columns, .. } = *product;
        let strides = if self.transposed[1] { [depth, 1] } else { [1, columns] };
        let pack = |matrix| PackedMatrix::pack_strided(engine.level, [columns, depth], matrix, strides, None);
        right.chunks_exact(depth * columns).map(pack).collect()
    }

    /// Left matrices with their rows one after the other.
    fn rows(&self, product: &Product, left: &[f32]) -> Option<Vec<f32>> {
        self.transposed[0].then(|| {
            let mut rows = vec![0.0; left.len()];
            let size = product.rows * product.depth;
            for (source, target) in left.chunks_exact(size).zip(rows.chunks_exact_mut(size)) {
                movement::transpose(source, &[product.depth, product.rows], &[1, 0], target);
            }
            rows
        })
    }

    fn multiply(
        &self,
        engine: Engine<'_>,
        product: &Product,
        left: &[f32],
        right: &[PackedMatrix],
        output: &mut [f32],
    ) {
        let Product { rows, depth, columns, .. } = *product;
        let everything = (f32::NEG_INFINITY, f32::INFINITY);
        if let [matrix] = right {
            // One right matrix for all: the left ones are one tall matrix.
            return gemm(engine, output.len() / columns, left, depth, matrix, output, columns, everything);
        }
        for (index, output) in output.chunks_exact_mut(rows * columns).enumerate() {
            let [left_index, right_index] = product.pair(index);
            let left = &left[left_index * rows * depth..][..rows * depth];
            gemm(engine, rows, left, depth, &right[right_index], output, columns, everything);
        }
    }
}

impl Op for BatchMatMul {
    fn name(&self) -> &str {
        DEFINITIONS[0].name()
    }

    fn infer(&self, inputs: &[Option<&Fact>]) -> Result<Vec<Inferred>, OpError> {
        arity(inputs, 2..=2)?;
        let (left, right) = (required(inputs, 0)?, required(inputs, 1)?);
        one_of(0, left, &[DataType::Float32])?;
        one_of(1, right, &[DataType::Float32])?;
        let (Some(left), Some(right)) = (&left.shape, &right.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        Ok(vec![Inferred::new(DataType::Float32, self.product(left, right)?.output()?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let multiplied = self.product((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        Some(product(&multiplied.outer).saturating_mul(product(&[
            multiplied.rows,
            multiplied.depth,
            multiplied.columns,
        ])))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        if is_empty(eval) {
            return Ok(());
        }
        let (engine, left, right) = (Engine::new(eval.parallel), eval.input(0)?, eval.input(1)?);
        let product = self.product(left.shape, right.shape)?;
        let (left, weights, output) = (left.values()?, right.values()?, eval.outputs[0].values()?);
        if product.depth == 0 {
            output.fill(0.0);
            return Ok(());
        }
        let fresh;
        let packed: &[PackedMatrix] = if right.is_constant {
            eval.cache.get_or_make(|| self.pack(engine, &product, weights))
        } else {
            fresh = self.pack(engine, &product, weights);
            &fresh
        };
        let rows = self.rows(&product, left);
        self.multiply(engine, &product, rows.as_deref().unwrap_or(left), packed, output);
        Ok(())
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Refusal> {
        let inputs = [lowering.float_input(0)?, lowering.float_input(1)?];
        let output = lowering.emit(Primitive::Multiply { transposed: self.transposed }, &inputs)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_axes_broadcast() {
        let op = BatchMatMul { transposed: [true, false] };
        let product = op.product(&[2, 1, 4, 3].into(), &[5, 4, 6].into()).unwrap();
        assert_eq!(product.output().unwrap(), Shape::from([2, 5, 3, 6]));
        assert_eq!((product.pair(0), product.pair(4), product.pair(7)), ([0, 0], [0, 4], [1, 2]));
        assert!(op.product(&[3, 4].into(), &[4, 6].into()).is_err());
        assert!(op.product(&[4].into(), &[4, 6].into()).is_err());
        assert!(op.product(&[2, 4, 3].into(), &[3, 4, 6].into()).is_err());
    }
}
