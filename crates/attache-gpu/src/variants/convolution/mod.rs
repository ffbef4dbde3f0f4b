//! Convolutions and matrix products.

pub(super) mod contract;
pub(super) mod contract_blocked;
pub(super) mod contract_bytes;
pub(super) mod contract_dense;
pub(super) mod contract_depthwise;
pub(super) mod contract_depthwise_bytes;
pub(super) mod contract_direct;
pub(super) mod contract_held;
pub(super) mod contract_held_bytes;
pub(super) mod contract_held_matrix;
pub(super) mod contract_matrix;
pub(super) mod contract_winograd;
mod held;
pub(super) mod multiply;
mod supply;
mod tile;
