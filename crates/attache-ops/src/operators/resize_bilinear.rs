//! RESIZE_BILINEAR: resizes images to the height and width given by an input, with bilinear interpolation.

use attache_base::DataType;
use attache_gpu_ir::Sampling;
use attache_graph::OpError;
use attache_model::schema::BuiltinOperator;

use crate::shared::resize::Resize;
use crate::{Code, Declaration, Definition, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RESIZE_BILINEAR),
    versions: 1..=4,
    inputs: &[
        input("images").of(&[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16]),
        input("size").of(&[DataType::Int32]),
    ],
    parse,
}];

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_resize_bilinear_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    if options.align_corners() && options.half_pixel_centers() {
        return Err(OpError::invalid("align_corners and half_pixel_centers exclude each other"));
    }
    Ok(Box::new(Resize {
        sampling: Sampling::Bilinear,
        align_corners: options.align_corners(),
        half_pixel_centers: options.half_pixel_centers(),
    }))
}
