//! Tests with real models, from the folder `models` of `$ATTACHE_SHARED`, by default `../shared` beside the
//! workspace.

mod models;
mod plans;
mod stored;
