//! The operators, one file each with all their facets, and the import of a model as graphs.
//!
//! An operator's file holds its [`Definition`] (code, versions, how options are parsed) and its `Op`: shapes, CPU form,
//! GPU form. Whatever needs a list of operators (import, reports, the manual, tests) reads [`definitions`]. Knows nothing
//! of devices or of the interpreter.

mod convolution;
mod definition;
mod fused;
mod import;
mod padding;
mod pieces;
mod pool;
mod reduction;
mod resize;
mod support;
mod view;

mod average_pool_2d;
mod binary;
mod cast;
mod comparison;
mod concatenation;
mod conv_2d;
mod convolution_2d_transpose_bias;
mod depth_to_space;
mod depthwise_conv_2d;
mod dequantize;
mod expand_dims;
mod fully_connected;
mod logical;
mod max_pool_2d;
mod max_pooling_with_argmax_2d;
mod max_unpooling_2d;
mod mean;
mod mirror_pad;
mod pack;
mod pad;
mod prelu;
mod reduce;
mod reshape;
mod resize_bilinear;
mod resize_nearest_neighbor;
mod select;
mod slice;
mod softmax;
mod split;
mod split_v;
mod squeeze;
mod strided_slice;
mod transpose;
mod transpose_conv;
mod unary;
mod unpack;

pub use definition::{Code, Declaration, Definition};
pub use import::{ImportError, import};

/// Every operator, sorted by file.
static TABLE: &[&[Definition]] = &[
    average_pool_2d::DEFINITIONS,
    binary::DEFINITIONS,
    cast::DEFINITIONS,
    comparison::DEFINITIONS,
    concatenation::DEFINITIONS,
    conv_2d::DEFINITIONS,
    convolution_2d_transpose_bias::DEFINITIONS,
    depth_to_space::DEFINITIONS,
    depthwise_conv_2d::DEFINITIONS,
    dequantize::DEFINITIONS,
    expand_dims::DEFINITIONS,
    fully_connected::DEFINITIONS,
    logical::DEFINITIONS,
    max_pool_2d::DEFINITIONS,
    max_pooling_with_argmax_2d::DEFINITIONS,
    max_unpooling_2d::DEFINITIONS,
    mean::DEFINITIONS,
    mirror_pad::DEFINITIONS,
    pack::DEFINITIONS,
    pad::DEFINITIONS,
    prelu::DEFINITIONS,
    reduce::DEFINITIONS,
    reshape::DEFINITIONS,
    resize_bilinear::DEFINITIONS,
    resize_nearest_neighbor::DEFINITIONS,
    select::DEFINITIONS,
    slice::DEFINITIONS,
    softmax::DEFINITIONS,
    split::DEFINITIONS,
    split_v::DEFINITIONS,
    squeeze::DEFINITIONS,
    strided_slice::DEFINITIONS,
    transpose::DEFINITIONS,
    transpose_conv::DEFINITIONS,
    unary::DEFINITIONS,
    unpack::DEFINITIONS,
];

/// Every operator that is implemented.
pub fn definitions() -> impl Iterator<Item = &'static Definition> {
    TABLE.iter().flat_map(|definitions| definitions.iter())
}
