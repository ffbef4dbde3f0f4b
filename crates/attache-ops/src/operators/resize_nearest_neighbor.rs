//! RESIZE_NEAREST_NEIGHBOR: resizes images to the height and width given by an input, with the nearest
//! element.

use attache_base::DataType::{Float32, Int8, Int16, Int32, UInt8};
use attache_gpu_ir::Sampling;
use attache_model::schema::BuiltinOperator;

use crate::shared::resize::Resize;
use crate::{Code, Declaration, Definition, Parsed, input};

pub(crate) static DEFINITIONS: &[Definition] = &[Definition {
    code: Code::Builtin(BuiltinOperator::RESIZE_NEAREST_NEIGHBOR),
    versions: 1..=4,
    inputs: &[input("images").of(&[Float32, Int32, UInt8, Int8, Int16]), input("size").of(&[Int32])],
    parse,
}];

fn parse(declaration: &Declaration<'_>) -> Parsed {
    let options = declaration.options.builtin_options_as_resize_nearest_neighbor_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Box::new(Resize {
        sampling: Sampling::Nearest,
        align_corners: options.align_corners(),
        half_pixel_centers: options.half_pixel_centers(),
    }))
}
