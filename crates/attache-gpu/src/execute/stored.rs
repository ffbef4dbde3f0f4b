//! An executable as bytes ([`StoredExecutable`]), from which it is loaded again without planning, packing and
//! compiling.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use attache_base::Bytes;
use attache_gpu_ir::Program;
use serde::{Deserialize, Serialize};

use super::session::check;
use super::{Executable, Interface, Runs};
use crate::device::constants::hashes;
use crate::device::{DeviceCode, ShaderCode};
use crate::kernel::{GpuError, GpuErrorKind, Precision};
use crate::plan::{Plan, PlanReport, PlanSummary, WeightSource};

/// Number of parts of a [`StoredExecutable`].
const PARTS: usize = 4;

/// An executable as bytes.
#[derive(Clone, Debug)]
pub struct StoredExecutable<B>([B; PARTS]);

impl StoredExecutable<Vec<u8>> {
    /// Returns the parts, of which the last one, the block of weights, should start at a multiple of 16 bytes where it is
    /// stored, and the others at a multiple of 4.
    #[must_use]
    pub fn into_parts(self) -> [Vec<u8>; PARTS] {
        self.0
    }
}

impl StoredExecutable<Bytes> {
    /// Number of parts.
    pub const PARTS: usize = PARTS;

    /// Creates a stored executable from the parts that [`StoredExecutable::into_parts`] returned.
    #[must_use]
    pub fn from_parts(parts: [Bytes; PARTS]) -> Self {
        Self(parts)
    }
}

/// The first part: everything but code and weights.
#[derive(Serialize, Deserialize)]
struct Head {
    plan: Plan,
    summary: PlanSummary,
    /// The number of words of each shader in the second part; empty if the device takes the text.
    shaders: Vec<usize>,
    /// The hash of each weight.
    hashes: Vec<[u8; 32]>,
}

/// The weights of a report, packed and hashed once and kept.
struct KeptWeights<'a> {
    report: &'a PlanReport,
    ranges: Vec<Range<usize>>,
    block: OnceLock<Vec<u8>>,
    hashes: OnceLock<Vec<[u8; 32]>>,
}

impl WeightSource for KeptWeights<'_> {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        let made = match self.block.get() {
            Some(_) => Vec::new(),
            None => self.report.block()?.into_owned(),
        };
        Ok(Cow::Borrowed(self.block.get_or_init(|| made)))
    }

    fn hashes(&self) -> Option<&[[u8; 32]]> {
        let block = self.block.get()?;
        Some(self.hashes.get_or_init(|| hashes(block, &self.ranges)))
    }
}

/// The weights of a stored executable.
struct StoredWeights {
    block: Bytes,
    hashes: Vec<[u8; 32]>,
}

impl WeightSource for StoredWeights {
    fn block(&self) -> Result<Cow<'_, [u8]>, GpuError> {
        Ok(Cow::Borrowed(&self.block))
    }

    fn hashes(&self) -> Option<&[[u8; 32]]> {
        Some(&self.hashes)
    }
}

impl Executable {
    /// Plans a program and loads the plan through an interface to a device, as [`Executable::on`] does. Also returns the
    /// executable as bytes.
    ///
    /// # Errors
    ///
    /// As [`Executable::on`].
    pub fn stored(
        interface: &dyn Interface,
        program: Program,
        precision: Precision,
        first: Option<Runs>,
    ) -> Result<(Self, StoredExecutable<Vec<u8>>), GpuError> {
        first.map_or(Ok(()), check)?;
        let report = PlanReport::new(program, precision, interface.limits(), interface.keeps_apart())?;
        let (plan, summary) = (Arc::new(report.plan()?), PlanSummary::new(&report));
        let ranges = plan.weight_ranges();
        let weights = KeptWeights { report: &report, ranges, block: OnceLock::new(), hashes: OnceLock::new() };
        let (loaded, cost) = interface.load(&plan, &weights, ShaderCode::CompileAndKeep, first)?;
        weights.block()?;
        let hashes = weights.hashes().unwrap_or_default().to_vec();
        let block = weights.block.into_inner().unwrap_or_default();
        let DeviceCode { shaders, pipelines } = loaded.code()?;
        let lengths = shaders.iter().map(Vec::len).collect();
        let head = Head { plan: (*plan).clone(), summary: summary.clone(), shaders: lengths, hashes };
        let head = postcard::to_allocvec(&head).expect("plain data becomes bytes");
        let words = bytemuck::cast_slice(&shaders.concat()).to_vec();
        let stored = StoredExecutable([head, words, pipelines, block]);
        Ok((Self { plan, summary, loaded, cost }, stored))
    }

    /// Loads a stored executable through an interface to the device that it was stored for, if it is what the caller
    /// expects: `is_expected` tells that from its summary, before anything is allocated. `first` is as in
    /// [`Executable::on`].
    ///
    /// # Errors
    ///
    /// If the bytes are not an executable, if it accesses memory outside of its own buffers, or if the device is out of
    /// memory, is lost, or does not take its code.
    pub fn restore(
        interface: &dyn Interface,
        stored: &StoredExecutable<Bytes>,
        is_expected: impl FnOnce(&PlanSummary) -> bool,
        first: Option<Runs>,
    ) -> Result<Self, GpuError> {
        first.map_or(Ok(()), check)?;
        let [head, words, pipelines, block] = &stored.0;
        let wrong = |what: &str| GpuError::new(GpuErrorKind::Failed, format!("a stored plan is damaged: {what}"));
        let (head, rest): (Head, _) = postcard::take_from_bytes(head).map_err(|error| wrong(&error.to_string()))?;
        let Head { plan, summary, shaders: lengths, hashes } = head;
        plan.check().map_err(|what| wrong(&what))?;
        let is_whole = rest.is_empty() && block.len() == plan.weight_bytes() && hashes.len() == plan.weights.len();
        if !is_whole || !summary.fits(&plan) {
            return Err(wrong("its parts do not fit each other"));
        }
        if !is_expected(&summary) {
            return Err(wrong("it has other inputs, outputs or nodes than expected"));
        }
        plan.check_limits(interface.limits()).map_err(|what| wrong(&what))?;
        if interface.keeps_apart() {
            plan.check_apart().map_err(|what| wrong(&what))?;
        }
        let shaders = split(words, &lengths).ok_or_else(|| wrong("a shader is missing"))?;
        if !(shaders.is_empty() || shaders.len() == plan.shaders.len()) {
            return Err(wrong("a shader is missing"));
        }
        let code = DeviceCode { shaders, pipelines: pipelines.to_vec() };
        let (plan, weights) = (Arc::new(plan), StoredWeights { block: block.clone(), hashes });
        let (loaded, cost) = interface.load(&plan, &weights, ShaderCode::Stored(&code), first)?;
        Ok(Self { plan, summary, loaded, cost })
    }
}

/// Splits words into pieces of these lengths. `None` unless they are all of the words.
fn split(bytes: &[u8], lengths: &[usize]) -> Option<Vec<Vec<u32>>> {
    let (mut words, rest) = bytes.as_chunks::<4>();
    let mut pieces = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (piece, following) = words.split_at_checked(*length)?;
        pieces.push(piece.iter().map(|word| u32::from_ne_bytes(*word)).collect());
        words = following;
    }
    (words.is_empty() && rest.is_empty()).then_some(pieces)
}
