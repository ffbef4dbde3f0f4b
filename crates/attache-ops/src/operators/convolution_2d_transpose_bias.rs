//! Convolution2DTransposeBias: MediaPipe's custom transposed convolution with a bias. Its options are 32-bit integers:
//! padding (1 SAME, 2 VALID), horizontal stride, vertical stride; further options are ignored.

use attache_base::{Activation, DataType, Padding, Shape};
use attache_graph::{Eval, Inferred, Lowering, OpError, Unsupported, WorkingMemory};
use attache_kernels::convolution::Convolution;

use crate::definition::{custom_padding, positive};
use crate::shared::contraction::OperandLayout;
use crate::shared::convolution::{
    TransposeConvolutionParameters, check_bias, inferred, multiply_adds, transposed_memory,
};
use crate::shared::support::{image, refuse};
use crate::{Code, Declaration, Definition, Facts, Operator, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Custom("Convolution2DTransposeBias"),
    versions: 1..=1,
    inputs: &[input("input").float(), input("filter").float(), input("bias").float()],
    parse,
}];

/// The operator with its attributes. Inputs: image, filter `[output, height, width, channel]` and bias, all
/// in float32.
#[derive(Debug)]
struct Convolution2dTransposeBias {
    spreading: TransposeConvolutionParameters,
    /// The output's height and width as stated by the file, which determine what SAME padding crops; `None`
    /// where the stated shape is not of rank 4.
    declared: Option<[usize; 2]>,
}

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let &[code, across, down, ..] = &declaration.custom_words()[..] else { return Err(declaration.no_options()) };
    let strides = [positive("the stride down", down)?, positive("the stride across", across)?];
    let spreading =
        TransposeConvolutionParameters { padding: custom_padding(code)?, strides, activation: Activation::None };
    let declared = declaration.outputs.first().and_then(|output| output.shape.as_ref());
    let declared = declared.and_then(|shape| <[usize; 4]>::try_from(shape.extents()).ok());
    let declared = declared.map(|[_, height, width, _]| [height, width]);
    Ok(Box::new(Convolution2dTransposeBias { spreading, declared }))
}

impl Convolution2dTransposeBias {
    fn convolution(&self, data: &Shape, filter: &Shape) -> Result<Convolution, OpError> {
        let (data, filter) = (image(0, data)?, image(1, filter)?);
        let output = self.output([data[1], data[2]], [filter[1], filter[2]]);
        let output = output.ok_or_else(|| OpError::invalid("the output is too large"))?;
        self.spreading.convolution(data, filter, output)
    }

    /// Returns the height and width of the output. With SAME padding these are the ones that the file states
    /// if they fit this input, else the input's times the strides. With VALID padding the output contains
    /// every position that a window reaches. Returns `None` where an extent overflows.
    fn output(&self, input: [usize; 2], kernel: [usize; 2]) -> Option<[usize; 2]> {
        let strides = self.spreading.strides;
        if self.spreading.padding == Padding::Same {
            let fits = |stated: &[usize; 2]| [0, 1].iter().all(|&a| stated[a].div_ceil(strides[a]) == input[a]);
            if let Some(stated) = self.declared.filter(fits) {
                return Some(stated);
            }
            return Some([input[0].checked_mul(strides[0])?, input[1].checked_mul(strides[1])?]);
        }
        let reach = |axis: usize| match input[axis] {
            0 => Some(0),
            extent => (extent - 1).checked_mul(strides[axis])?.checked_add(kernel[axis]),
        };
        Some([reach(0)?, reach(1)?])
    }
}

/// Indices of the inputs image, filter and bias.
const OPERANDS: [usize; 3] = [0, 1, 2];

impl Operator for Convolution2dTransposeBias {
    fn infer(&self, inputs: Facts<'_>) -> Result<Vec<Inferred>, OpError> {
        let [data, filter, bias] = inputs.required();
        let (Some(data), Some(filter)) = (&data.shape, &filter.shape) else {
            return Ok(vec![Inferred::unknown(DataType::Float32)]);
        };
        let convolution = self.convolution(data, filter)?;
        check_bias(2, Some(bias), convolution.output[2])?;
        inferred(DataType::Float32, &convolution)
    }

    fn multiply_adds(&self, inputs: &[Option<&Shape>], _: &[&Shape]) -> Option<u64> {
        let convolution = self.convolution((*inputs.first()?)?, (*inputs.get(1)?)?).ok()?;
        let [height, width, _] = convolution.input;
        Some(multiply_adds([height, width], &convolution))
    }

    fn working_memory(&self, inputs: Facts<'_>, _: &[&Shape]) -> Option<WorkingMemory> {
        let [image, filter] = inputs.required();
        let convolution = self.convolution(image.shape.as_ref()?, filter.shape.as_ref()?).ok()?;
        Some(transposed_memory([image, filter], &convolution))
    }

    fn eval(&self, eval: &mut Eval<'_>) -> Result<(), OpError> {
        let convolution = self.convolution(eval.input(0)?.shape, eval.input(1)?.shape)?;
        self.spreading.eval(eval, &convolution, OPERANDS)
    }

    fn lower(&self, lowering: &mut Lowering<'_>) -> Result<(), Unsupported> {
        let convolution = self.convolution(lowering.input_shape(0)?, lowering.input_shape(1)?).map_err(refuse)?;
        let layout = OperandLayout { operands: OPERANDS, axis: 0, transposed: true, is_depthwise: false };
        self.spreading.lower(lowering, &convolution, &layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(padding: Padding, declared: [usize; 2]) -> Convolution2dTransposeBias {
        let spreading = TransposeConvolutionParameters { padding, strides: [2, 2], activation: Activation::None };
        Convolution2dTransposeBias { spreading, declared: Some(declared) }
    }

    #[test]
    fn the_stated_shape_decides_same_padding_where_it_fits() {
        let same = |declared| op(Padding::Same, declared).output([3, 4], [3, 3]).unwrap();
        assert_eq!((same([5, 7]), same([6, 8]), same([7, 9])), ([5, 7], [6, 8], [6, 8]));
        let cut =
            |declared| op(Padding::Same, declared).convolution(&Shape::from([1, 3, 4, 2]), &Shape::from([1, 3, 3, 2]));
        assert_eq!((cut([5, 7]).unwrap().before, cut([6, 8]).unwrap().before), ([1, 1], [0, 0]));
    }

    #[test]
    fn valid_padding_takes_all_that_the_window_reaches() {
        let valid = |input| op(Padding::Valid, [1, 1]).output(input, [3, 1]).unwrap();
        assert_eq!((valid([3, 4]), valid([1, 0])), ([7, 7], [3, 0]));
    }
}
