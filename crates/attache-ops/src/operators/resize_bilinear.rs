//! RESIZE_BILINEAR: resizing with bilinear interpolation.

use std::sync::Arc;

use attache_base::DataType;
use attache_gpu_ir::Sampling;
use attache_graph::{Op, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::resize::Resize;
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::RESIZE_BILINEAR), versions: 1..=4, parse }];

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_resize_bilinear_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    if options.align_corners() && options.half_pixel_centers() {
        return Err(OpError::invalid("align_corners and half_pixel_centers exclude each other"));
    }
    Ok(Arc::new(Resize {
        name: DEFINITIONS[0].name(),
        sampling: Sampling::Bilinear,
        types: &[DataType::Float32, DataType::Int8, DataType::UInt8, DataType::Int16],
        align_corners: options.align_corners(),
        half_pixel_centers: options.half_pixel_centers(),
    }))
}
