//! What a report holds: the data that its page shows, and that lies in the page for later comparisons.

use serde::{Deserialize, Serialize};

use crate::commands::advise::options::Snippet;
use crate::commands::advise::study::Study;

/// The form of the data. Other forms are refused.
pub(super) const FORMAT: u32 = 1;

/// A report of several models on one machine.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Data {
    pub(super) format: u32,
    /// The version of the command that measured.
    pub(super) version: String,
    /// Date and time in UTC.
    pub(super) made: String,
    pub(super) machine: Machine,
    pub(super) models: Vec<ModelData>,
    pub(super) failures: Vec<FailureData>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) system: String,
    pub(super) cpu: String,
    pub(super) threads: usize,
    /// The adapters that were measured, with their drivers.
    pub(super) adapters: Vec<String>,
}

/// A model that could not be measured, and why.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FailureData {
    pub(super) model: String,
    pub(super) message: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ModelData {
    /// The model's file name without its folder.
    pub(super) title: String,
    pub(super) bytes: usize,
    pub(super) operators: usize,
    /// Each input and output with type and shape.
    pub(super) inputs: Vec<String>,
    pub(super) outputs: Vec<String>,
    pub(super) study: Study,
    pub(super) headline: String,
    pub(super) remarks: Vec<String>,
    pub(super) snippets: Vec<Snippet>,
    /// The name of the way whose placement is shown.
    pub(super) placed_way: String,
    pub(super) placement: Vec<Placed>,
    pub(super) profiles: Vec<ProfileData>,
}

/// An operator and where it runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Placed {
    pub(super) operator: String,
    pub(super) place: Place,
    /// Why it is there, or what became of it.
    pub(super) note: String,
    /// Whether it reads constants alone.
    pub(super) is_constant: bool,
    /// Indices of the operators whose outputs it reads.
    pub(super) reads: Vec<usize>,
}

/// Where an operator runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Place {
    Cpu,
    Gpu,
    /// Nowhere: it was computed in advance or removed.
    Folded,
}

/// Where the time of a way goes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ProfileData {
    pub(super) way: String,
    pub(super) summary: String,
    pub(super) shares: Vec<Share>,
}

/// The operators of one name.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Share {
    pub(super) operators: String,
    pub(super) place: Place,
    pub(super) count: usize,
    pub(super) us: f64,
}
