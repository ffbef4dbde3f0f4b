//! Constant matrices of 4-bit integers that have a scale for each block of elements of a row ("blockwise quantization"), as
//! language models store their weights.

use attache_base::{DataType, Shape};
use attache_graph::OpError;
use attache_model::{QuantizationDetails, Tensor};

use crate::Declaration;

/// The scales of a constant matrix `[rows, elements of a row]` of 4-bit integers, whose zero points are 0.
#[derive(Debug)]
pub(crate) struct BlockScales {
    /// The number of elements of a block, a divisor of the elements of a row.
    pub(crate) block: usize,
    /// The scales of the blocks, row by row.
    pub(crate) scales: Vec<f32>,
}

impl BlockScales {
    /// Returns the scales of an operator's input; `None` if it is not quantized by blocks.
    pub(crate) fn of(declaration: &Declaration<'_>, input: usize) -> Result<Option<Self>, OpError> {
        let index = declaration.operator.inputs.get(input).copied().flatten();
        index.map_or(Ok(None), |index| Self::read(declaration.tensors, index))
    }

    /// Returns the scales of the tensor with this index, as TensorFlow Lite's kernels take them.
    fn read(tensors: &[Tensor], index: usize) -> Result<Option<Self>, OpError> {
        let tensor = &tensors[index];
        let QuantizationDetails::Blockwise { scales, zero_points, block_size: block, .. } = tensor.quantization_details
        else {
            return Ok(None);
        };
        let unsupported = |what: String| Err(OpError::unsupported(format!("blockwise quantization {what}")));
        if tensor.data_type != DataType::Int4 || tensor.constant.is_none() {
            return unsupported(format!("of {}; implemented: constants of INT4", tensor.data_type));
        }
        if zero_points.is_some() {
            return unsupported("with zero points".to_owned());
        }
        let [_, depth] = *tensor.shape else {
            return unsupported(format!("of a tensor of shape {}; implemented: matrices", tensor.shape));
        };
        if block == 0 || !depth.is_multiple_of(2) || !depth.is_multiple_of(block) {
            return unsupported(format!("of rows of {depth} elements by blocks of {block}"));
        }
        let stored = &tensors[scales];
        let Some(constant) = stored.constant.as_ref().filter(|_| stored.data_type == DataType::Float16) else {
            return unsupported(format!("with scales of {}; implemented: constants of FLOAT16", stored.data_type));
        };
        let scales = constant.floats().unwrap_or_default().into_owned();
        let scales = Self { block, scales };
        scales.check(&tensor.shape)?;
        Ok(Some(scales))
    }

    /// Checks that there is a scale for each block of a matrix of this shape.
    pub(crate) fn check(&self, matrix: &Shape) -> Result<(), OpError> {
        let Self { block, scales } = self;
        let fits = |rows: usize, depth: usize| {
            depth.is_multiple_of(2)
                && depth.is_multiple_of(*block)
                && rows.checked_mul(depth / block) == Some(scales.len())
        };
        match **matrix {
            [rows, depth] if fits(rows, depth) => Ok(()),
            _ => {
                let count = scales.len();
                Err(OpError::invalid(format!(
                    "{count} scales for blocks of {block} elements of a tensor of shape {matrix}"
                )))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use attache_model::Model;

    use super::*;

    /// The tensors of a golden case with weights `[9, 128]` in blocks of 64, and which of them the weights are.
    fn tensors() -> (Vec<Tensor>, usize) {
        let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/cases");
        let model = Model::from_path(cases.join("f32_FULLY_CONNECTED_blocks_of_64_no_bias/model.tflite")).unwrap();
        let subgraph = &model.subgraphs()[0];
        (subgraph.tensors.clone(), subgraph.operators[0].inputs[1].unwrap())
    }

    fn refusal(change: impl Fn(&mut [Tensor], usize)) -> String {
        let (mut tensors, weights) = tensors();
        change(&mut tensors, weights);
        BlockScales::read(&tensors, weights).unwrap_err().to_string()
    }

    fn details(tensor: &mut Tensor, change: impl Fn(&mut usize, &mut Option<usize>)) {
        let QuantizationDetails::Blockwise { block_size, zero_points, .. } = &mut tensor.quantization_details else {
            panic!("{:?}", tensor.quantization_details);
        };
        change(block_size, zero_points);
    }

    #[test]
    fn scales_are_those_of_blocks() {
        let (tensors, weights) = tensors();
        let scales = BlockScales::read(&tensors, weights).unwrap().unwrap();
        assert_eq!((scales.block, scales.scales.len()), (64, 9 * 2));
        assert!(BlockScales::read(&tensors, 0).unwrap().is_none(), "the input has none");
    }

    #[test]
    fn what_no_kernel_takes_is_refused() {
        let refusals = [
            (refusal(|all, weights| all[weights].data_type = DataType::Int8), "constants of INT4"),
            (refusal(|all, weights| all[weights].constant = None), "constants of INT4"),
            (refusal(|all, weights| details(&mut all[weights], |_, points| *points = Some(0))), "with zero points"),
            (refusal(|all, weights| details(&mut all[weights], |block, _| *block = 0)), "by blocks of 0"),
            (refusal(|all, weights| details(&mut all[weights], |block, _| *block = 48)), "by blocks of 48"),
            (refusal(|all, weights| details(&mut all[weights], |block, _| *block = 32)), "for blocks of 32 elements"),
            (refusal(|all, weights| all[weights].shape = [9 * 128].into()), "implemented: matrices"),
            (refusal(|all, _| all.iter_mut().for_each(|one| one.shape = [3, 128].into())), "for blocks of 64"),
        ];
        for (text, expected) in refusals {
            assert!(text.contains(expected), "{text} does not have {expected:?}");
        }
    }
}
