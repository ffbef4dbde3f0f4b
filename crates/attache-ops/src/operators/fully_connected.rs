//! FULLY_CONNECTED: the product of the input, a matrix of rows, and a transposed weight matrix, plus an
//! optional bias.

mod shuffled;

use attache_base::{Activation, DataType, Shape};
use attache_gpu_ir::ValueId;
use attache_graph::{Eval, Inferred, Lowering, OpError, Quantized as Computed, TensorRef, Unsupported, WorkingMemory};
use attache_kernels::Engine;
use attache_kernels::convolution::Convolution;
use attache_kernels::gemm::{PackedMatrix, gemm};
use attache_kernels::quantized::{
    self, BlockwiseMatrix, ByteRows, ColumnScales, Int16x8Epilogue, Int16x8Matrix, Int16x8Rounding, Operand,
    PackedIntegers, QuantizedRows, Requantize, Rounding, Zero, blockwise_gemm, dynamic_gemm, int16x8_gemm,
    quantize_rows,
};
use attache_model::schema::{BuiltinOperator, FullyConnectedOptionsWeightsFormat as Format};

use self::shuffled::ShuffledProduct;
use crate::definition::activation;
use crate::shared::block_scales::BlockScales;
use crate::shared::contraction;
use crate::shared::contraction::{
    Arithmetic, OperandLayout, RequantizationParameters, ScalePrecision, WeightScales, bias_of, finish_int16x8,
    int16x8_bias, int16x8_parameters, int16x8_sums, is_constant, narrow_bias, weight_bytes, with_kept, zero_of,
};
use crate::shared::convolution::{self, Weights, check_bias, float_as, weights_as};
use crate::shared::exact::is_exact;
use crate::shared::fused;
use crate::shared::support::{countable, product, refuse};
use crate::shared::working::{converted, of_weights, packed};
use crate::shared::xnn_pack;
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::FULLY_CONNECTED),
    versions: 1..=14,
    inputs: &[input("input"), input("weights").blockwise_too(), input("bias").optional()],
    parse,
}];

/// FULLY_CONNECTED with its attributes. Inputs: rows, weights `[output, element of a row]` and an optional
/// bias.
#[derive(Debug)]
struct FullyConnected {
    activation: Activation,
    /// Whether the output keeps all axes of the input except the last; else it has rank 2.
    keep_num_dims: bool,
    /// Whether rows of float inputs are quantized with a zero point, rather than symmetrically, for a product
    /// with quantized weights.
    is_asymmetric: bool,
    /// The scales of weights that are quantized by blocks.
    blocks: Option<BlockScales>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_fully_connected_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    let activation = activation(options.fused_activation_function())?;
    let (keep_num_dims, is_asymmetric) = (options.keep_num_dims(), options.asymmetric_quantize_inputs());
    let product = FullyConnected { activation, keep_num_dims, is_asymmetric, blocks: BlockScales::of(declaration, 1)? };
    match (options.weights_format(), declaration.outputs.len()) {
        (Format::DEFAULT, _) => Ok(Box::new(product)),
        (Format::SHUFFLED4x16INT8, 2) => Ok(Box::new(ShuffledProduct(product))),
        (Format::SHUFFLED4x16INT8, _) => {
            Err(OpError::invalid("with shuffled weights it has a second output, the shuffled input"))
        }
        (other, _) => Err(OpError::unsupported(format!("weights in the format {}", other.0))),
    }
}

/// The extents of the matrix product: `rows` (M), `depth` (K) and `outputs` (N).
struct MatrixSize {
    rows: usize,
    depth: usize,
    outputs: usize,
}

impl MatrixSize {
    fn new(input: &Shape, weights: &Shape) -> Result<Self, OpError> {
        let elements = countable(input.clone())?.elements();
        match **weights {
            [outputs, depth] if depth > 0 && elements % depth == 0 => {
                Ok(Self { rows: elements / depth, depth, outputs })
            }
            _ => Err(OpError::invalid(format!("weights {weights} do not fit an input {input}"))),
        }
    }
}

impl FullyConnected {
    fn output(&self, input: &Shape, product: &MatrixSize) -> Result<Shape, OpError> {
        if !self.keep_num_dims {
            return countable(Shape::from([product.rows, product.outputs]));
        }
        match input.split_last() {
            Some((last, outer)) if *last == product.depth => {
                countable(outer.iter().copied().chain([product.outputs]).collect())
            }
            _ => Err(OpError::invalid(format!("the last axis of {input} is not of {} elements", product.depth))),
        }
    }

    fn eval_floats(&self, eval: &mut Eval<'_>, product: &MatrixSize) -> Result<(), OpError> {
        let (input, weights) = (eval.input(0)?, eval.input(1)?);
        let MatrixSize { rows, depth, outputs } = *product;
        let (engine, weights) = (Engine::new(eval.parallel), Weights::new(weights, eval.optional(2))?);
        let (input, output) = (input.values()?, eval.outputs[0].values()?);
        let clamp = fused::clamp(self.activation);
        weights.with_packed(
            eval.cache,
            || PackedMatrix::parameters(outputs, depth),
            |weights| PackedMatrix::pack(engine.isa, outputs, depth, weights.filter, weights.bias),
            |packed| gemm(engine, rows, input, depth, packed, output, outputs, clamp),
        );
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    fn eval_bytes(&self, eval: &mut Eval<'_>, product: &MatrixSize) -> Result<(), OpError> {
        let (input, weights, bias) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        let MatrixSize { depth, outputs, .. } = *product;
        let (engine, parameters) = (Engine::new(eval.parallel), || PackedIntegers::parameters(outputs, depth, depth));
        // What is kept was checked when it was made.
        if !cfg!(attache_small)
            && is_constant(&[Some(weights), bias])
            && let Some((packed, epilogue)) = eval.cache.get_for::<(PackedIntegers, Requantize)>(parameters)
        {
            let zero = zero_of(&input)?;
            let output = &mut *eval.outputs[0].bytes;
            quantized::gemm(engine, input.bytes, zero.signed, &[zero.point], packed, epilogue, output);
            return Ok(());
        }
        let scales = WeightScales::of(&weights, AXIS)?;
        let requantization = RequantizationParameters::new(&input, scales, &eval.outputs[0], self.activation)?;
        let (integers, zero) = (narrow_bias(bias)?, requantization.input());
        let (is_asked, result) = (xnn_pack::is_asked(eval), (eval.outputs[0].data_type, eval.outputs[0].quantization));
        let once = || xnn_pack::requantize(&input, (&weights, bias), result, (self.activation, outputs));
        let make = || {
            let bytes = weight_bytes(&weights);
            let (operand, extents) = (requantization.weights(&bytes), [outputs, depth]);
            let packed = PackedIntegers::pack(engine.isa, extents, operand, [depth, 1], depth, integers, zero);
            let packed = if weights.data_type == DataType::Int2 { packed.quartered() } else { packed };
            let once = is_asked.then(once).flatten();
            (packed, once.unwrap_or_else(|| requantization.requantize(outputs, Rounding::Once, precision(&scales))))
        };
        let output = &mut *eval.outputs[0].bytes;
        with_kept(eval.cache, &[Some(weights), bias], parameters, make, |(packed, epilogue)| {
            quantized::gemm(engine, input.bytes, zero.signed, &[zero.point], packed, epilogue, output)
        });
        Ok(())
    }

    fn eval_int16x8(&self, eval: &mut Eval<'_>, product: &MatrixSize) -> Result<(), OpError> {
        contraction::eval_int16x8(
            eval,
            OPERANDS,
            || Int16x8Matrix::parameters(product.outputs, product.depth),
            |eval| self.wide_weights(eval, product),
            int16x8_gemm,
        )
    }

    /// Returns the weights and the epilogue of a product of 16-bit activations.
    fn wide_weights(&self, eval: &Eval<'_>, product: &MatrixSize) -> Result<(Int16x8Matrix, Int16x8Epilogue), OpError> {
        let (input, weights, bias) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        let scales = WeightScales::of(&weights, AXIS)?;
        let requantization = RequantizationParameters::new(&input, scales, &eval.outputs[0], self.activation)?;
        let rounding =
            if weights.data_type == DataType::Int16 { Int16x8Rounding::Short } else { Int16x8Rounding::Full };
        let numbers = numbers(&weights, requantization.weight_zero_point() as i16)?;
        let matrix = Int16x8Matrix::new(product.outputs, &numbers, int16x8_bias(bias)?.as_deref());
        Ok((matrix, requantization.int16x8(rounding, precision(&scales))?))
    }

    /// Emits the product of 8-bit activations and 8-bit or 4-bit weights as a convolution of 1 × 1 images.
    fn lower_bytes(&self, lowering: &mut Lowering<'_>, convolution: &Convolution) -> Result<ValueId, Unsupported> {
        let (weights, outputs) = (lowering.input_fact(1)?, convolution.output[2]);
        let scales = WeightScales::new(weights.data_type, weights.quantization.as_ref(), AXIS, Some(outputs));
        let scales = scales.map_err(refuse)?;
        let requantization = RequantizationParameters::of(lowering, [0, 1], scales, self.activation)?;
        let depth = convolution.input[2];
        let input = lowering.input(0)?;
        let mut operands = vec![
            lowering.reshape(input, &[convolution.batches, 1, 1, depth].into())?,
            requantization.filter(lowering, 1, [outputs, 1, 1, depth], false)?,
        ];
        operands.extend(bias_of(lowering, 2, outputs)?);
        let sums = contraction::contract(lowering, convolution, false, &operands, requantization.zero_points())?;
        requantization.finish(lowering, sums, Rounding::Once, precision(&scales))
    }

    /// Emits the product of 16-bit activations and 8-bit or 4-bit weights as a convolution of 1 × 1 images.
    fn lower_int16x8(&self, lowering: &mut Lowering<'_>, convolution: &Convolution) -> Result<ValueId, Unsupported> {
        let weights = lowering.input_fact(1)?;
        if weights.data_type == DataType::Int16 {
            return Err(Unsupported::new("sums of 64 bits, which a device has no integers for"));
        }
        let outputs = Some(convolution.output[2]);
        let scales = WeightScales::new(weights.data_type, weights.quantization.as_ref(), AXIS, outputs);
        let scales = scales.map_err(refuse)?;
        let requantization = int16x8_parameters(lowering, 0, scales, self.activation)?;
        let epilogue = requantization.int16x8(Int16x8Rounding::Full, precision(&scales)).map_err(refuse)?;
        let layout = OperandLayout { operands: [0, 1, 2], axis: AXIS, transposed: false, is_depthwise: false };
        let sums = int16x8_sums(lowering, convolution, &layout, requantization.weight_zero_point())?;
        finish_int16x8(lowering, sums, &epilogue)
    }

    /// Multiplies floats by quantized weights: each row of the input is quantized to bytes, and the 32-bit
    /// sums are rescaled to floats.
    fn eval_dynamic(&self, eval: &mut Eval<'_>, product: &MatrixSize) -> Result<(), OpError> {
        let (input, weights, bias) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        let MatrixSize { depth, outputs, .. } = *product;
        let parameters = || PackedIntegers::parameters(outputs, depth, depth);
        // What is kept was checked when it was made.
        let is_kept = weights.is_constant && eval.cache.get_for::<PackedIntegers>(parameters).is_some();
        let scales = match is_kept {
            true => WeightScales::checked(&weights)?,
            false => WeightScales::of(&weights, AXIS)?.symmetric(weights.data_type)?,
        };
        let bias = bias.map(|bias| bias.values::<f32>()).transpose()?;
        let engine = Engine::new(eval.parallel);
        let make = || {
            let bytes = weight_bytes(&weights);
            let operand = Operand { bytes: &bytes, zero: Zero { signed: true, point: 0 } };
            let packed =
                PackedIntegers::pack(engine.isa, [outputs, depth], operand, [depth, 1], depth, None, Zero::UNKNOWN);
            if weights.data_type == DataType::Int2 { packed.quartered() } else { packed }
        };
        let (input, output) = ((input.values()?, !self.is_asymmetric), eval.outputs[0].values()?);
        let columns = ColumnScales::new(scales.scales, bias, outputs);
        with_kept(eval.cache, &[Some(weights)], parameters, make, |packed| {
            dynamic_gemm(engine, input, packed, &columns, fused::clamp(self.activation), output)
        });
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    /// Multiplies floats by weights that are quantized by blocks. Each row of the input is quantized to bytes with a zero
    /// point, whatever the options say, as TensorFlow Lite does.
    fn eval_blocks(&self, eval: &mut Eval<'_>, depth: usize, blocks: &BlockScales) -> Result<(), OpError> {
        let (input, weights, bias) = (eval.input(0)?, eval.input(1)?, eval.optional(2));
        blocks.check(weights.shape)?;
        let bias = bias.map(|bias| bias.values::<f32>()).transpose()?;
        let engine = Engine::new(eval.parallel);
        let values: &[f32] = input.values()?;
        let rows = values.len() / depth;
        let (mut bytes, mut scales, mut zero_points) = (vec![0; values.len()], vec![0.0; rows], vec![0; rows]);
        let target = QuantizedRows { bytes: &mut bytes, scales: &mut scales, zero_points: &mut zero_points };
        quantize_rows(engine.isa, values, depth, false, target);
        let rows = ByteRows { bytes: &bytes, scales: &scales, zero_points: &zero_points };
        let BlockScales { block, scales } = blocks;
        let weights = BlockwiseMatrix { nibbles: weights.bytes, depth, block: *block, scales, bias };
        let output = eval.outputs[0].values()?;
        blockwise_gemm(engine, rows, weights, fused::clamp(self.activation), output);
        fused::finish(engine, self.activation, output);
        Ok(())
    }

    /// Adds the weights to the program as floats of this shape, of which it keeps the integers if they have scales.
    fn lower_weights(&self, lowering: &mut Lowering<'_>, shape: Shape) -> Result<ValueId, Unsupported> {
        if let Some(blocks) = self.blocks.as_ref().filter(|_| lowering.quantized() == Computed::View) {
            let weights = lowering.scaled_constant(1, &shape, &blocks.scales);
            return weights.ok_or_else(|| Unsupported::new("weights by blocks that do not fit their scales"));
        }
        match lowering.quantized_constant(1, &shape) {
            Some(weights) => Ok(weights),
            None => weights_as(lowering, 1, shape),
        }
    }
}

/// Indices of the inputs rows, weights and bias.
const OPERANDS: [usize; 3] = [0, 1, 2];

/// The weights' axis of outputs, along which they may have one scale each.
const AXIS: usize = 0;

/// Returns the arithmetic of activations and weights of these types. Only this operator takes weights of 16 bits. Those
/// that are declared as UINT8 beside floats are signed nevertheless.
fn arithmetic(activations: DataType, weights: DataType) -> Result<Arithmetic, OpError> {
    match (activations, weights) {
        (DataType::Int16, DataType::Int16) => Ok(Arithmetic::Wide),
        (DataType::Float32, DataType::UInt8) => Ok(Arithmetic::Dynamic),
        _ => Arithmetic::of(activations, weights),
    }
}

/// Returns weights of 16-bit activations, less their zero point.
fn numbers(weights: &TensorRef<'_>, point: i16) -> Result<Vec<i16>, OpError> {
    if weights.data_type != DataType::Int16 {
        return Ok(weight_bytes(weights).iter().map(|byte| i16::from(*byte as i8) - point).collect());
    }
    let numbers: Option<_> = weights.values::<i16>()?.iter().map(|number| number.checked_sub(point)).collect();
    numbers.ok_or_else(|| OpError::unsupported("weights that exceed 16 bits with their zero point"))
}

/// Returns the precision in which TensorFlow Lite multiplies the scales of input and weights: single for one
/// scale of the weights, double for several.
fn precision(scales: &WeightScales<'_>) -> ScalePrecision {
    if scales.scales.len() == 1 { ScalePrecision::Single } else { ScalePrecision::Double }
}

impl Operator for FullyConnected {
    /// The scales of blocks, which may be many, make no text: with them nothing is kept.
    #[cfg(not(attache_small))]
    fn attributes(&self) -> Option<String> {
        self.blocks.is_none().then(|| format!("{self:?}"))
    }

    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let (input, weights, bias) = (inputs.fact(0), inputs.fact(1), inputs.optional(2));
        let (data_type, arithmetic) = (input.data_type, arithmetic(input.data_type, weights.data_type)?);
        match (&self.blocks, arithmetic) {
            (None, _) => arithmetic.check_types(inputs, OPERANDS, AXIS)?,
            (Some(_), Arithmetic::Dynamic) => arithmetic.check_bias(inputs, OPERANDS[2])?,
            (Some(_), _) => {
                let text = format!("weights that are quantized by blocks, with activations of type {data_type}");
                return Err(OpError::unsupported(text));
            }
        }
        let (Some(input), Some(weights)) = (&input.shape, &weights.shape) else {
            return Ok(vec![Inferred::unknown(data_type)]);
        };
        let product = MatrixSize::new(input, weights)?;
        check_bias(2, bias, product.outputs)?;
        self.blocks.as_ref().map_or(Ok(()), |blocks| blocks.check(weights))?;
        Ok(vec![Inferred::new(data_type, self.output(input, &product)?)])
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let MatrixSize { rows, depth, outputs } = MatrixSize::new((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        Some(product(&[rows, depth, outputs]))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let [input, weights] = inputs.required();
        let from = input.shape.as_ref()?;
        let MatrixSize { depth, outputs, rows } = MatrixSize::new(from, weights.shape.as_ref()?).ok()?;
        if self.blocks.is_some() {
            // The quantized input and the transposed output; the weights are not copied.
            let scratch = converted(from).saturating_add(product(&[rows, outputs, 4]));
            return Some(WorkingMemory { kept: 0, scratch });
        }
        let memory = of_weights(weights, packed(weights.data_type, 1, [outputs, depth], depth));
        Some(WorkingMemory { scratch: memory.scratch.saturating_add(converted(from)), ..memory })
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let (input, weights) = (eval.input(0)?, eval.input(1)?);
        let product = MatrixSize::new(input.shape, weights.shape)?;
        if let Some(blocks) = &self.blocks {
            return self.eval_blocks(eval, product.depth, blocks);
        }
        match arithmetic(input.data_type, weights.data_type)? {
            Arithmetic::Float => self.eval_floats(eval, &product),
            Arithmetic::Bytes => self.eval_bytes(eval, &product),
            Arithmetic::Wide => self.eval_int16x8(eval, &product),
            Arithmetic::Dynamic => self.eval_dynamic(eval, &product),
        }
    }

    /// Emits the product as a convolution of 1 × 1 images.
    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let product = MatrixSize::new(lowering.input_shape(0)?, lowering.input_shape(1)?).map_err(refuse)?;
        let MatrixSize { rows, depth, outputs } = product;
        let convolution = Convolution {
            batches: rows,
            input: [1, 1, depth],
            output: [1, 1, outputs],
            kernel: [1, 1],
            strides: [1, 1],
            dilations: [1, 1],
            before: [0, 0],
            first: 0,
            groups: 1,
            clamp: fused::clamp(self.activation),
        };
        let shape = lowering.output_shape(0)?.clone();
        if is_exact(lowering, 0) {
            let result = match lowering.input_fact(0)?.data_type {
                DataType::Int16 => self.lower_int16x8(lowering, &convolution)?,
                _ => self.lower_bytes(lowering, &convolution)?,
            };
            let output = lowering.reshape(result, &shape)?;
            return lowering.output(0, output);
        }
        let data = float_as(lowering, 0, Shape::from([rows, 1, 1, depth]))?;
        let weights = self.lower_weights(lowering, Shape::from([outputs, 1, 1, depth]))?;
        let layout = OperandLayout { operands: [0, 1, 2], axis: AXIS, transposed: false, is_depthwise: false };
        let sums = convolution::sums(lowering, &convolution, &layout, [data, weights])?;
        let result = fused::lower(lowering, self.activation, sums)?;
        let output = lowering.reshape(result, &shape)?;
        lowering.output(0, output)
    }
}

#[cfg(test)]
mod tests {
    use attache_graph::Fact;

    use super::*;

    fn output(keep_num_dims: bool, input: &[usize], weights: &[usize]) -> Result<Shape, OpError> {
        let op = FullyConnected { activation: Activation::None, keep_num_dims, is_asymmetric: false, blocks: None };
        let [input, weights] = [input, weights].map(|shape| Fact::new(DataType::Float32, shape));
        Ok(DEFINITIONS[0].infer(&op, &[Some(&input), Some(&weights)])?.remove(0).shape.unwrap())
    }

    #[test]
    fn rows_are_counted_or_kept() {
        assert_eq!(output(false, &[2, 4], &[3, 8]).unwrap(), Shape::from([1, 3]));
        assert_eq!(output(true, &[5, 2, 4], &[3, 4]).unwrap(), Shape::from([5, 2, 3]));
        assert_eq!(output(true, &[6], &[3, 6]).unwrap(), Shape::from([3]));
    }

    #[test]
    fn weights_must_fit() {
        for (keep, input, weights) in
            [(false, &[2, 4][..], &[3, 3][..]), (true, &[2, 4], &[3, 8]), (false, &[0], &[3, 0]), (true, &[], &[3, 1])]
        {
            assert!(matches!(output(keep, input, weights), Err(OpError::Invalid(_))), "{input:?} {weights:?}");
        }
    }
}
