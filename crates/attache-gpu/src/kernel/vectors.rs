//! Vector widths: an invocation processes four elements at once if the shapes of all values that the kernel uses allow
//! it.

use attache_base::{Shape, broadcast_strides};
use attache_gpu_ir::{Primitive, Program, ReduceOp, Scalar};

use super::Kernel;

/// An axis along which an operand is broadcast to the output's shape: the output's extent, and the operand's
/// stride in elements, which is 0 if the operand is repeated along the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Axis {
    pub(crate) extent: usize,
    pub(crate) stride: usize,
}

/// Returns the axes of `from` broadcast to `to`, innermost first, without axes of extent 1. Adjacent axes are
/// merged if one loop can cover both.
pub(crate) fn axes(from: &Shape, to: &Shape) -> Vec<Axis> {
    let strides = broadcast_strides(from, to);
    let mut axes: Vec<Axis> = Vec::new();
    for (&extent, &stride) in to.iter().zip(&strides).rev().filter(|(extent, _)| **extent != 1) {
        match axes.last_mut() {
            Some(last) if stride == last.stride * last.extent => last.extent *= extent,
            _ => axes.push(Axis { extent, stride }),
        }
    }
    axes
}

/// Returns the type of the elements that a kernel's primitive computes, before the epilogue.
pub(crate) fn computed_scalar(program: &Program, kernel: &Kernel) -> Scalar {
    use Primitive::{Concatenate, Convolution, Gather, IndexMap, MatMul, Reduce, Scan, Scatter, Update};
    let keeps = match kernel.primitive {
        IndexMap(_) | Concatenate { .. } | Gather(_) | Convolution(_) | MatMul { .. } => true,
        Scan { .. } | Scatter { .. } | Update => true,
        Reduce { reduction, .. } => reduction != ReduceOp::Mean,
        _ => false,
    };
    let integers = keeps && program.value(kernel.inputs[0]).scalar == Scalar::I32;
    if integers || matches!(kernel.primitive, Primitive::ArgReduce { .. }) { Scalar::I32 } else { Scalar::F32 }
}

/// Returns the vector width: how many adjacent elements one invocation computes. It is 4 if the output and
/// every operand that is broadcast to it can be accessed in whole vectors, also in each of the kernel's maps, otherwise 1.
pub(crate) fn vector_width(program: &Program, kernel: &Kernel) -> usize {
    let output = program.value(kernel.outputs[0]);
    let is_map = matches!(kernel.primitive, Primitive::Map { .. } | Primitive::IntMap { .. });
    let broadcast = if is_map { &kernel.inputs } else { &kernel.operands };
    let whole = |from: &Shape| axes(from, &output.shape).first().is_none_or(|axis| axis.extent.is_multiple_of(4));
    let fits = output.shape.elements().is_multiple_of(4) && broadcast.iter().all(|id| whole(program.shape(*id)));
    if fits && kernel.maps.iter().all(|map| vector_width(program, map) == 4) { 4 } else { 1 }
}

#[cfg(test)]
mod tests {

    #[test]
    fn axes_that_one_loop_covers_are_merged() {
        let axes = |from: &[usize], to: &[usize]| {
            super::axes(&from.into(), &to.into()).iter().map(|a| (a.extent, a.stride)).collect::<Vec<_>>()
        };
        assert_eq!(axes(&[2, 3, 4], &[2, 3, 4]), [(24, 1)]);
        assert_eq!(axes(&[4], &[2, 3, 4]), [(4, 1), (6, 0)]);
        assert_eq!(axes(&[2, 3, 1], &[2, 3, 4]), [(4, 0), (6, 1)]);
        assert_eq!(axes(&[2, 1, 4], &[2, 3, 4]), [(4, 1), (3, 0), (2, 4)]);
        assert_eq!(axes(&[1], &[5, 7]), [(35, 0)]);
    }
}
