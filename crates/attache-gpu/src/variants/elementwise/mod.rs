//! Variants that implement elementwise kernels: maps, data movement, gathers, resampling and max unpooling.

pub(super) mod concatenate;
pub(super) mod gather;
pub(super) mod gather_integers;
pub(super) mod index_map;
pub(super) mod map;
pub(super) mod resample;
pub(super) mod unpool;
pub(super) mod update;
