//! Variants that implement convolutions and matrix products, and the shader parts that they share.

pub(super) mod conv;
pub(super) mod conv_blocked;
pub(super) mod conv_bytes;
pub(super) mod conv_dense;
pub(super) mod conv_depthwise;
pub(super) mod conv_depthwise_bytes;
pub(super) mod conv_direct;
pub(super) mod conv_matrix;
pub(super) mod conv_staged;
pub(super) mod conv_staged_bytes;
pub(super) mod conv_staged_matrix;
pub(super) mod conv_vector;
pub(super) mod conv_winograd;
mod input_loader;
mod left_rows;
pub(super) mod matmul;
pub(super) mod matmul_group;
pub(super) mod matmul_matrix;
pub(super) mod matmul_tiled;
mod staged;
mod tiling;
