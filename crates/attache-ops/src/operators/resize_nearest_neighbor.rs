//! RESIZE_NEAREST_NEIGHBOR: resizing with the nearest element.

use std::sync::Arc;

use attache_base::DataType::{Float32, Int8, Int16, Int32, UInt8};
use attache_gpu_ir::Sampling;
use attache_graph::{Op, OpError};
use attache_model::schema::BuiltinOperator;

use crate::shared::resize::Resize;
use crate::{Code, Declaration, Definition};

pub(crate) static DEFINITIONS: &[Definition] =
    &[Definition { code: Code::Builtin(BuiltinOperator::RESIZE_NEAREST_NEIGHBOR), versions: 1..=4, parse }];

fn parse(declaration: &Declaration<'_>) -> Result<Arc<dyn Op>, OpError> {
    let options = declaration.options.builtin_options_as_resize_nearest_neighbor_options();
    let options = options.ok_or_else(|| declaration.no_options())?;
    Ok(Arc::new(Resize {
        name: DEFINITIONS[0].name(),
        sampling: Sampling::Nearest,
        types: &[Float32, Int32, UInt8, Int8, Int16],
        align_corners: options.align_corners(),
        half_pixel_centers: options.half_pixel_centers(),
    }))
}
