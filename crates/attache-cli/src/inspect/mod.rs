//! What a model file contains and what the GPU would take of it, without running the model.

pub(crate) mod advice;
pub(crate) mod kind;
pub(crate) mod survey;
