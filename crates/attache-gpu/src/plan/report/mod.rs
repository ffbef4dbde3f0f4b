//! How a program was planned: its kernels, shaders and places in memory, for people and for whoever costs dispatches.

mod pack;
mod validate;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use attache_base::Bytes;
use attache_gpu_ir::{Expression, Primitive, Program, Source, Value, ValueId, Whole};

use self::pack::weights;
use self::validate::validate_report;
use super::hazards::Hazards;
use super::weights::Weight;
use super::{BoundRange, Buffer, BufferRange, Dispatch, Plan};
use crate::fuse::{fuse, split};
use crate::kernel::{
    Epilogue, GpuError, GpuErrorKind, Kernel, Limits, Precision, Storage, Storages, broken, roots, validate,
};
use crate::layout::{Excess, Layout, Place, Rules};
use crate::variants::write;
use crate::wgsl::{Binding, Shader};

/// A dispatch with the kernel that it belongs to.
#[derive(Clone, Debug)]
pub struct PlannedDispatch {
    /// What runs, and on what.
    pub shader: Shader,
    /// The kernel, by its place in [`PlanReport::kernels`].
    pub kernel: usize,
}

/// A planned program. [`PlanReport::plan`] is what a device runs of it.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// The program.
    pub program: Program,
    /// In which numbers it computes.
    pub precision: Precision,
    /// How its values are stored.
    pub storages: Storages,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
    /// The dispatches, in order.
    pub dispatches: Vec<PlannedDispatch>,
    /// Where values lie.
    pub layout: Layout,
    /// Variants that could have written some kernel that another wrote.
    pub alternatives: BTreeSet<&'static str>,
}

impl PlanReport {
    /// Plans a program for a device of these limits. With `apart` no dispatch reads the buffer that it writes, as
    /// [`Submission::keeps_apart`](crate::Submission::keeps_apart) asks for.
    pub fn new(mut program: Program, precision: Precision, limits: &Limits, apart: bool) -> Result<Self, GpuError> {
        program.validate().map_err(|error| GpuError::new(GpuErrorKind::Failed, error.to_string()))?;
        settle_reshapes(&mut program);
        let fused = fuse(&program, limits);
        validate(&program, &fused, "fusion")?;
        let mut kernels = split(&mut program, fused, limits.max_bindings);
        validate(&program, &kernels, "splitting")?;
        let mut storages = Storages::new(&program, precision.storage(limits.shader_f16));
        let (mut dispatches, mut alternatives) = (Vec::new(), BTreeSet::new());
        let mut add = |program: &Program, kernel: &Kernel, index: usize, storages: &mut Storages| {
            let written = write(program, kernel, storages, limits);
            settle(&written.shaders, storages);
            alternatives.extend(written.alternatives);
            dispatches.extend(written.shaders.into_iter().map(|shader| PlannedDispatch { shader, kernel: index }));
        };
        for (index, kernel) in kernels.iter().enumerate() {
            add(&program, kernel, index, &mut storages);
        }
        for narrowing in narrow_outputs(&mut program, &mut storages, &kernels) {
            add(&program, &narrowing, kernels.len(), &mut storages);
            kernels.push(narrowing);
        }
        let constants = constants(&program, &dispatches);
        let rules = Rules { alignment: limits.alignment, apart };
        let layout = Layout::new(&program, &kernels, constants, &storages, rules);
        let report = Self { program, precision, storages, kernels, dispatches, layout, alternatives };
        validate_report(&report)?;
        Ok(report)
    }

    /// What a device runs, as plain data. An error where a dispatch binds what lies nowhere.
    pub fn plan(&self) -> Result<Plan, GpuError> {
        let weights = weights(self);
        let mut packed = weights[self.layout.constants.len()..].iter();
        let (mut shaders, mut hazards) = (Shaders::default(), Hazards::default());
        let mut dispatches = Vec::with_capacity(self.dispatches.len());
        for dispatch in &self.dispatches {
            let shader = &dispatch.shader;
            let bindings = shader.bindings.iter().map(|binding| {
                let range = match binding {
                    Binding::Read(id) | Binding::Write(id, _) => self.range(*id, &weights)?,
                    Binding::Packed(_) | Binding::Words(_) => {
                        packed.next().map(Weight::range).ok_or_else(|| broken("packed weights are missing".into()))?
                    }
                };
                Ok(BoundRange { range, writes: matches!(binding, Binding::Write(..)) })
            });
            let bindings = bindings.collect::<Result<Vec<_>, GpuError>>()?;
            let needs_barrier = hazards.meet(&bindings);
            let (groups, params) = (shader.groups, shader.params.clone());
            dispatches.push(Dispatch {
                shader: shaders.index(&shader.source),
                groups,
                params,
                bindings,
                needs_barrier,
            });
        }
        let inputs = self.program.inputs.iter().map(|id| self.bytes(*id)).collect();
        let outputs = self.program.outputs.iter().map(|id| self.range(*id, &weights)).collect::<Result<_, _>>()?;
        Ok(Plan { shaders: shaders.texts, dispatches, inputs, outputs, banks: self.layout.banks.clone(), weights })
    }

    /// Where a value lies.
    fn range(&self, id: ValueId, weights: &[Weight]) -> Result<BufferRange, GpuError> {
        let size = self.bytes(id);
        match self.layout.places[id.index()] {
            Place::Input(index) => Ok(BufferRange { buffer: Buffer::Input(index), offset: 0, size }),
            Place::Constant(index) => Ok(BufferRange { size, ..weights[index].range() }),
            Place::Bank { bank, offset } => Ok(BufferRange { buffer: Buffer::Bank(bank), offset, size }),
            Place::Nowhere => Err(broken(format!("%{} lies nowhere", id.0))),
        }
    }

    /// Bytes of a value on the device.
    pub fn bytes(&self, id: ValueId) -> usize {
        self.storages.bytes(&self.program, id)
    }

    /// Bytes of all intermediate values' banks.
    pub fn arena_bytes(&self) -> usize {
        self.layout.banks.iter().sum()
    }

    /// Bytes of constants that the host has for it, those that kernels packed for themselves among them.
    pub fn host_constant_bytes(&self) -> usize {
        let constants = self.program.values.iter().map(|value| match &value.source {
            Source::Constant(constant) => constant.bytes.len(),
            Source::Input | Source::Step(_) => 0,
        });
        let bindings = self.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings);
        let packed = bindings.map(|binding| match binding {
            Binding::Packed(numbers) => size_of_val(numbers.numbers()),
            Binding::Words(words) => size_of_val(words.numbers()),
            Binding::Read(_) | Binding::Write(..) => 0,
        });
        constants.chain(packed).sum()
    }

    /// Gives up the host's memory for constants, once a recording has them: what is told of the plan stays true, but nothing
    /// can be recorded of it any more.
    pub(crate) fn release_constants(&mut self) {
        for value in &mut self.program.values {
            if let Source::Constant(constant) = &mut value.source {
                constant.bytes = Bytes::from_vec(Vec::new());
            }
        }
        for binding in self.dispatches.iter_mut().flat_map(|dispatch| &mut dispatch.shader.bindings) {
            match binding {
                Binding::Packed(numbers) => numbers.release(),
                Binding::Words(words) => words.release(),
                Binding::Read(_) | Binding::Write(..) => {}
            }
        }
    }

    /// The variants that wrote its dispatches.
    pub fn variants(&self) -> BTreeSet<&'static str> {
        self.dispatches.iter().map(|dispatch| dispatch.shader.variant).collect()
    }

    /// For each step's origin that no longer runs by itself, into which origins' kernel it went.
    pub fn merged(&self) -> Vec<(usize, Vec<usize>)> {
        let mut merged = Vec::new();
        for kernel in self.kernels.iter().filter(|kernel| kernel.origins.len() > 1) {
            for origin in &kernel.origins {
                let others = kernel.origins.iter().copied().filter(|other| other != origin).collect();
                merged.push((*origin, others));
            }
        }
        merged
    }
}

/// Texts of shaders, each once.
#[derive(Default)]
struct Shaders<'a> {
    texts: Vec<String>,
    known: HashMap<&'a str, usize>,
}

impl<'a> Shaders<'a> {
    fn index(&mut self, source: &'a str) -> usize {
        let texts = &mut self.texts;
        *self.known.entry(source).or_insert_with(|| {
            texts.push(source.to_owned());
            texts.len() - 1
        })
    }
}

/// Settles how what shaders write is stored.
fn settle(shaders: &[Shader], storages: &mut Storages) {
    for binding in shaders.iter().flat_map(|shader| &shader.bindings) {
        if let Binding::Write(id, storage) = binding {
            storages.settle(*id, *storage);
        }
    }
}

/// Outputs whose elements fit bytes but which a kernel had to store wider become bytes after all, since those cross the
/// bus: one more kernel each, in the place of the outputs that it narrows.
fn narrow_outputs(program: &mut Program, storages: &mut Storages, made: &[Kernel]) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = Vec::new();
    for place in 0..program.outputs.len() {
        let wide = program.outputs[place];
        if program.value(wide).bytes.is_none() || storages.of(wide) != Storage::I32 {
            continue;
        }
        if let Some(known) = kernels.iter().find(|kernel| kernel.inputs == [wide]) {
            program.outputs[place] = known.outputs[0];
            continue;
        }
        let root = roots(program)[wide.index()];
        let maker = made.iter().find(|kernel| kernel.outputs.contains(&root));
        let origins: Vec<usize> = maker.and_then(|kernel| kernel.origins.last()).copied().into_iter().collect();
        let shape = program.shape(wide).clone();
        let primitive = Primitive::WholeMap { expression: Whole::Input(0), shape };
        let narrow = program.step(primitive.clone(), &[wide], 0).expect("integers map to themselves")[0];
        program.values[narrow.index()].bytes = program.value(wide).bytes;
        storages.extend(program);
        program.outputs[place] = narrow;
        let epilogue = Epilogue::Real(Expression::Input(0));
        let operands = Vec::new();
        let (inputs, prologue, outputs, views) = (vec![wide], None, vec![narrow], Vec::new());
        kernels.push(Kernel { primitive, inputs, prologue, epilogue, operands, views, outputs, origins });
    }
    kernels
}

/// Values in one place are stored alike: one that isn't inner makes all that are reshaped from or to it the same, and so
/// does one whose elements are bytes.
fn settle_reshapes(program: &mut Program) {
    let reshapes: Vec<(ValueId, ValueId)> = (program.steps.iter())
        .filter(|step| matches!(step.primitive, Primitive::Reshape(_)))
        .map(|step| (step.inputs[0], step.outputs[0]))
        .collect();
    for (from, to) in reshapes.iter().rev() {
        let Value { is_inner, bytes, .. } = program.values[to.index()];
        let value = &mut program.values[from.index()];
        value.is_inner &= is_inner;
        // A constant tells by its own type how it is uploaded.
        if !matches!(value.source, Source::Constant(_)) {
            value.bytes = value.bytes.or(bytes);
        }
    }
    for (from, to) in &reshapes {
        let Value { is_inner, bytes, .. } = program.values[from.index()];
        let value = &mut program.values[to.index()];
        value.is_inner &= is_inner;
        value.bytes = bytes;
    }
}

/// The constants that shaders read as they are, and those that are outputs, each once, by the value in whose place they
/// lie.
fn constants(program: &Program, dispatches: &[PlannedDispatch]) -> Vec<ValueId> {
    let roots = roots(program);
    let read = dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings).filter_map(|binding| match binding {
        Binding::Read(id) => Some(*id),
        Binding::Packed(_) | Binding::Words(_) | Binding::Write(..) => None,
    });
    let read = read.chain(program.outputs.iter().copied()).map(|id| roots[id.index()]);
    let mut constants: Vec<ValueId> =
        read.filter(|id| matches!(program.value(*id).source, Source::Constant(_))).collect();
    constants.sort_unstable();
    constants.dedup();
    constants
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, bytes) in self.layout.banks.iter().enumerate() {
            writeln!(f, "bank {index}: {bytes} bytes")?;
        }
        let Excess { banks, alignment, planner } = self.layout.excess;
        let bound = self.layout.lower_bound;
        write!(f, "arena: {} bytes, lower bound {bound}, excess: ", self.arena_bytes())?;
        writeln!(f, "banks {banks}, alignment {alignment}, planner {planner}")?;
        for (index, dispatch) in self.dispatches.iter().enumerate() {
            let kernel = &self.kernels[dispatch.kernel];
            let [x, y, z] = dispatch.shader.groups;
            write!(f, "{index}: {} [{x}, {y}, {z}]  # {:?}", dispatch.shader.variant, kernel.origins)?;
            for binding in &dispatch.shader.bindings {
                match binding {
                    Binding::Read(id) => write!(f, ", reads %{} {:?}", id.0, self.layout.places[id.index()])?,
                    Binding::Write(id, _) => write!(f, ", writes %{} {:?}", id.0, self.layout.places[id.index()])?,
                    Binding::Packed(numbers) => write!(f, ", {} packed numbers", numbers.count())?,
                    Binding::Words(words) => write!(f, ", {} packed words", words.count())?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
