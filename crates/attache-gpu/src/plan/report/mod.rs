//! Plans a program: fuses it to kernels, generates their shaders, and assigns memory. The report keeps these
//! intermediate results, from which the plan and the costs of dispatches are derived.

mod in_place;
mod pack;
mod validate;

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use attache_gpu_ir::{IntExpression, Primitive, Program, Source, Value, ValueId};

use self::pack::weights;
use self::validate::validate_report;
use super::hazards::Hazards;
use super::weights::Weight;
use super::{BoundRange, BufferRange, Dispatch, InPlace, Plan, PlanBuffer};
use crate::fuse::{defer, fuse, merge, scale_products, split};
use crate::kernel::{
    DeviceLimits, GpuError, GpuErrorKind, Kernel, Precision, StorageFormat, StorageFormats, broken, roots, validate,
};
use crate::layout::{ArenaOverhead, Layout, LayoutConstraints, Location};
use crate::variants::write;
use crate::wgsl::{Binding, Shader};

/// A dispatch of a planned program, and the kernel that it belongs to.
#[derive(Clone, Debug)]
pub struct PlannedDispatch {
    /// The shader and its bindings.
    pub shader: Shader,
    /// The kernel, as an index into [`PlanReport::kernels`].
    pub kernel: usize,
}

/// Another form of a dispatch, for runs in which an input and an output share memory. See [`InPlace`].
#[derive(Clone, Debug)]
pub struct PlannedInPlace {
    /// The dispatch, as an index into [`PlanReport::dispatches`].
    pub dispatch: usize,
    /// The input that the dispatch copies.
    pub input: usize,
    /// The output to which the dispatch copies it, with some elements replaced.
    pub output: usize,
    /// The dispatch that alone reads the output, if the shader is in place of that one and replaces these elements as well.
    pub reader: Option<usize>,
    /// The shader that replaces these elements alone, or as well.
    pub shader: Shader,
}

/// A planned program with all results of planning. [`PlanReport::plan`] returns the part that a device runs.
#[derive(Clone, Debug)]
pub struct PlanReport {
    /// The program, including the values and steps that planning added.
    pub program: Program,
    /// The precision of storage and arithmetic.
    pub precision: Precision,
    /// The storage format of each value.
    pub storages: StorageFormats,
    /// The kernels to which the program was fused.
    pub kernels: Vec<Kernel>,
    /// The dispatches, in the order in which they execute.
    pub dispatches: Vec<PlannedDispatch>,
    /// Other forms of dispatches, for runs in which inputs and outputs share memory.
    pub in_place: Vec<PlannedInPlace>,
    /// The memory location of each value.
    pub layout: Layout,
    /// The names of the variants that apply to some kernel for which another variant was chosen.
    pub alternatives: BTreeSet<&'static str>,
}

impl PlanReport {
    /// Plans a program for a device of these limits. `apart` tells whether no dispatch may read the buffer
    /// that it writes, as an interface may require (`Interface::keeps_apart`).
    ///
    /// # Errors
    ///
    /// If the program is invalid, or if a stage breaks an invariant, which is a bug of this crate.
    pub fn new(program: Program, precision: Precision, limits: &DeviceLimits, apart: bool) -> Result<Self, GpuError> {
        program.validate().map_err(|error| GpuError::new(GpuErrorKind::Failed, error.to_string()))?;
        let mut program = scale_products(&program);
        settle_reshapes(&mut program);
        let limits = &limits.storing(precision.storage(limits.shader_f16));
        let (mut program, fused) = fused(&program, limits);
        validate(&program, &fused, "fusion")?;
        let mut kernels = split(&mut program, fused, limits.max_bindings);
        validate(&program, &kernels, "splitting")?;
        let mut storages = StorageFormats::new(&program, precision.storage(limits.shader_f16));
        let (mut dispatches, mut alternatives) = (Vec::new(), BTreeSet::new());
        let mut add = |program: &Program, kernel: &Kernel, index: usize, storages: &mut StorageFormats| {
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
        let readers = if apart { Vec::new() } else { in_place::readers(&program, &kernels) };
        let rules = LayoutConstraints { alignment: limits.alignment, apart, readers: &readers };
        let layout = Layout::new(&program, &kernels, constants, &storages, rules);
        let in_place = Vec::new();
        let mut report = Self { program, precision, storages, kernels, dispatches, in_place, layout, alternatives };
        report.in_place = in_place::in_place(&report, &readers, limits);
        validate_report(&report)?;
        Ok(report)
    }

    /// Returns the plan: the part that a device runs, as plain data.
    ///
    /// # Errors
    ///
    /// If a dispatch binds a value without memory.
    pub fn plan(&self) -> Result<Plan, GpuError> {
        let weights = weights(self);
        let packed = weights[self.layout.constants.len()..].iter();
        let mut writer = DispatchWriter { report: self, weights: &weights, packed, shaders: Shaders::default() };
        let mut hazards = Hazards::default();
        let mut dispatches = Vec::with_capacity(self.dispatches.len());
        // A reader that updates as well reads what the update reads, which later dispatches must not overwrite yet.
        let readers = self.in_place.iter().filter_map(|form| Some((form.reader?, &form.shader)));
        let readers: HashMap<usize, &Shader> = readers.collect();
        for (index, planned) in self.dispatches.iter().enumerate() {
            let dispatch = writer.dispatch(&planned.shader)?;
            let more = readers.get(&index).map(|form| writer.read(form)).transpose()?.unwrap_or_default();
            let bound = [dispatch.bindings.as_slice(), &more].concat();
            dispatches.push(Dispatch { needs_barrier: hazards.record(&bound), ..dispatch });
        }
        let mut in_place = Vec::with_capacity(self.in_place.len());
        for PlannedInPlace { dispatch, input, output, reader, shader } in &self.in_place {
            let needs_barrier = dispatches[reader.unwrap_or(*dispatch)].needs_barrier;
            let form = Dispatch { needs_barrier, ..writer.dispatch(shader)? };
            in_place.push(InPlace { dispatch: *dispatch, input: *input, output: *output, reader: *reader, form });
        }
        let shaders = writer.shaders.sources;
        let inputs = self.program.inputs.iter().map(|id| self.bytes(*id)).collect();
        let outputs = self.program.outputs.iter().map(|id| self.range(*id, &weights)).collect::<Result<_, _>>()?;
        let banks = self.layout.banks.clone();
        Ok(Plan { shaders, dispatches, in_place, inputs, outputs, banks, weights })
    }

    /// Returns the memory range of a value. `weights` are the weights of the plan.
    fn range(&self, id: ValueId, weights: &[Weight]) -> Result<BufferRange, GpuError> {
        let size = self.bytes(id);
        match self.layout.locations[id.index()] {
            Location::Input(index) => Ok(BufferRange { buffer: PlanBuffer::Input(index), offset: 0, size }),
            Location::Constant(index) => Ok(BufferRange { size, ..weights[index].range() }),
            Location::Bank { bank, offset } => Ok(BufferRange { buffer: PlanBuffer::Bank(bank), offset, size }),
            Location::Unallocated => Err(broken(format!("%{} has no memory", id.0))),
        }
    }

    /// Returns the size of a value on the device in bytes, without padding.
    #[must_use]
    pub fn bytes(&self, id: ValueId) -> usize {
        self.storages.bytes(&self.program, id)
    }

    /// Returns the total size of all banks of intermediate values in bytes.
    #[must_use]
    pub fn arena_bytes(&self) -> usize {
        self.layout.banks.iter().sum()
    }

    /// Returns the bytes of host memory that the constants occupy, including packed weights.
    #[must_use]
    pub fn host_constant_bytes(&self) -> usize {
        let constants = self.program.values.iter().map(|value| match &value.source {
            Source::Constant(constant) => constant.bytes.len(),
            Source::Input | Source::Step(_) => 0,
        });
        let bindings = self.dispatches.iter().flat_map(|dispatch| &dispatch.shader.bindings);
        let packed = bindings.map(|binding| match binding {
            Binding::Packed(floats) => size_of_val(floats.elements()),
            Binding::Words(words) => size_of_val(words.elements()),
            Binding::Read(_) | Binding::Write(..) => 0,
        });
        constants.chain(packed).sum()
    }

    /// Returns the names of the variants that generated the dispatches.
    #[must_use]
    pub fn variants(&self) -> BTreeSet<&'static str> {
        self.dispatches.iter().map(|dispatch| dispatch.shader.variant).collect()
    }
}

/// Makes the dispatches of a plan, in their order.
struct DispatchWriter<'a> {
    report: &'a PlanReport,
    weights: &'a [Weight],
    /// The packed weights that no dispatch has bound yet.
    packed: std::slice::Iter<'a, Weight>,
    shaders: Shaders<'a>,
}

impl<'a> DispatchWriter<'a> {
    /// Returns the ranges of values that a shader reads.
    fn read(&self, shader: &Shader) -> Result<Vec<BoundRange>, GpuError> {
        let read = |binding: &Binding| match binding {
            Binding::Read(id) => Some(self.report.range(*id, self.weights)),
            Binding::Write(..) | Binding::Packed(_) | Binding::Words(_) => None,
        };
        let bound = |range: Result<BufferRange, GpuError>| Ok(BoundRange { range: range?, writes: false });
        shader.bindings.iter().filter_map(read).map(bound).collect()
    }

    /// Returns the dispatch of a shader, without a barrier before it.
    fn dispatch(&mut self, shader: &'a Shader) -> Result<Dispatch, GpuError> {
        let range = |binding: &Binding| {
            let range = match binding {
                Binding::Read(id) | Binding::Write(id, _) => self.report.range(*id, self.weights)?,
                Binding::Packed(_) | Binding::Words(_) => {
                    self.packed.next().map(Weight::range).ok_or_else(|| broken("packed weights are missing".into()))?
                }
            };
            Ok(BoundRange { range, writes: matches!(binding, Binding::Write(..)) })
        };
        let bindings = shader.bindings.iter().map(range).collect::<Result<_, GpuError>>()?;
        let (groups, params, needs_barrier) = (shader.groups, shader.params.clone(), false);
        Ok(Dispatch { shader: self.shaders.index(&shader.source), groups, params, bindings, needs_barrier })
    }
}

/// The sources of a plan's shaders, without duplicates.
#[derive(Default)]
struct Shaders<'a> {
    sources: Vec<String>,
    known: HashMap<&'a str, usize>,
}

impl<'a> Shaders<'a> {
    fn index(&mut self, source: &'a str) -> usize {
        let sources = &mut self.sources;
        *self.known.entry(source).or_insert_with(|| {
            sources.push(source.to_owned());
            sources.len() - 1
        })
    }
}

/// Sets the storage formats of the values that `shaders` write to the formats in which they write them, which
/// are final.
fn settle(shaders: &[Shader], storages: &mut StorageFormats) {
    for binding in shaders.iter().flat_map(|shader| &shader.bindings) {
        if let Binding::Write(id, storage) = binding {
            storages.settle(*id, *storage);
        }
    }
}

/// Returns the program with movement deferred, and its kernels. Siblings are merged where that makes fewer kernels: slices
/// of a merged value that cannot be read in place would be kernels of their own.
fn fused(program: &Program, limits: &DeviceLimits) -> (Program, Vec<Kernel>) {
    let of = |program: &Program| {
        let mut program = defer(program);
        settle_reshapes(&mut program);
        let kernels = fuse(&program, limits);
        (program, kernels)
    };
    let plain = of(program);
    match merge(program, limits).map(|merged| of(&merged)) {
        Some(merged) if merged.1.len() < plain.1.len() => merged,
        _ => plain,
    }
}

/// Adds to the program a step for each output whose elements fit 8 bits but are stored as 32-bit integers,
/// and returns the kernels of these steps. The step converts the output to bytes, since outputs are copied to
/// the host, and the converted value replaces the output. `planned` are the other kernels.
fn narrow_outputs(program: &mut Program, storages: &mut StorageFormats, planned: &[Kernel]) -> Vec<Kernel> {
    let mut kernels: Vec<Kernel> = Vec::new();
    for output in 0..program.outputs.len() {
        let wide = program.outputs[output];
        if program.value(wide).bytes.is_none() || storages.of(wide) != StorageFormat::I32 {
            continue;
        }
        if let Some(known) = kernels.iter().find(|kernel| kernel.inputs == [wide]) {
            program.outputs[output] = known.outputs[0];
            continue;
        }
        let root = roots(program)[wide.index()];
        let maker = planned.iter().find(|kernel| kernel.outputs.contains(&root));
        let origins: Vec<usize> = maker.and_then(|kernel| kernel.origins.last()).copied().into_iter().collect();
        let shape = program.shape(wide).clone();
        let primitive = Primitive::IntMap { expression: IntExpression::Input(0), shape };
        let narrow = program.step(primitive.clone(), &[wide], 0).expect("integers map to themselves")[0];
        program.values[narrow.index()].bytes = program.value(wide).bytes;
        storages.extend(program);
        program.outputs[output] = narrow;
        kernels.push(Kernel::of(primitive, vec![wide], vec![narrow], origins));
    }
    kernels
}

/// Makes values that share memory through reshapes agree in their storage: if one of them is not inner, none is, and if
/// one is stored as bytes, all are.
fn settle_reshapes(program: &mut Program) {
    let reshapes: Vec<(ValueId, ValueId)> = (program.steps.iter())
        .filter(|step| matches!(step.primitive, Primitive::Reshape(_)))
        .map(|step| (step.inputs[0], step.outputs[0]))
        .collect();
    for (from, to) in reshapes.iter().rev() {
        let Value { is_inner, bytes, .. } = program.values[to.index()];
        let value = &mut program.values[from.index()];
        value.is_inner &= is_inner;
        // The type of a constant determines how it is uploaded.
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

/// Returns the constants that shaders read as they are, without packing, and those that are outputs, without
/// duplicates. A constant that is read through reshapes is represented by the constant itself.
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
        let ArenaOverhead { banks, alignment, planner } = self.layout.excess;
        let bound = self.layout.lower_bound;
        write!(f, "arena: {} bytes, lower bound {bound}, excess: ", self.arena_bytes())?;
        writeln!(f, "banks {banks}, alignment {alignment}, planner {planner}")?;
        for (index, dispatch) in self.dispatches.iter().enumerate() {
            let kernel = &self.kernels[dispatch.kernel];
            let [x, y, z] = dispatch.shader.groups;
            write!(f, "{index}: {} [{x}, {y}, {z}]  # {:?}", dispatch.shader.variant, kernel.origins)?;
            self.bindings(f, &dispatch.shader)?;
        }
        for PlannedInPlace { dispatch, input, output, reader, shader } in &self.in_place {
            let [x, y, z] = shader.groups;
            let reader = reader.map(|reader| format!(" and {reader}")).unwrap_or_default();
            write!(
                f,
                "in place of {dispatch}{reader} where input {input} and output {output} share memory: [{x}, {y}, {z}]"
            )?;
            self.bindings(f, shader)?;
        }
        Ok(())
    }
}

impl PlanReport {
    /// Writes what a shader binds, to the end of the line.
    fn bindings(&self, f: &mut fmt::Formatter<'_>, shader: &Shader) -> fmt::Result {
        for binding in &shader.bindings {
            match binding {
                Binding::Read(id) => write!(f, ", reads %{} {:?}", id.0, self.layout.locations[id.index()])?,
                Binding::Write(id, _) => write!(f, ", writes %{} {:?}", id.0, self.layout.locations[id.index()])?,
                Binding::Packed(floats) => write!(f, ", {} packed floats", floats.count())?,
                Binding::Words(words) => write!(f, ", {} packed words", words.count())?,
            }
        }
        writeln!(f)
    }
}
