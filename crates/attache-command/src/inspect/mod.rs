//! Determines what a model file contains and which operators the GPU would run, without running the model.

pub(crate) mod advice;
pub(crate) mod kind;
pub(crate) mod survey;
