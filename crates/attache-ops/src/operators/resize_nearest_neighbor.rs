//! RESIZE_NEAREST_NEIGHBOR: resizes images to the height and width given by an input, with the nearest
//! element.

use attache_base::DataType;
use attache_gpu_ir::Sampling;
use attache_model::schema::BuiltinOperator;

use crate::shared::resize::Resize;
use crate::{Code, Declaration, Definition, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RESIZE_NEAREST_NEIGHBOR),
    versions: 1..=4,
    inputs: &[input("images").of(&TYPES), input("size").of(&[DataType::Int32])],
    parse,
}];

/// Supported element types.
const TYPES: [DataType; 9] = [
    DataType::Float32,
    DataType::Int32,
    DataType::UInt8,
    DataType::Int8,
    DataType::Int16,
    DataType::Float16,
    DataType::Bool,
    DataType::UInt16,
    DataType::UInt32,
];

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_resize_nearest_neighbor_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Resize {
        sampling: Sampling::Nearest,
        align_corners: options.align_corners(),
        half_pixel_centers: options.half_pixel_centers(),
    }))
}
