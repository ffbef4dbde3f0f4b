//! A configuration that is ready to run: how it is prepared, run and compared with the CPU.

use std::time::Instant;

use attache::diff::Tolerance;

use super::configurations::Configuration;
use super::race::Times;
use super::study::{Measured, Plan};
use crate::arguments::PrecisionName;
use crate::arguments::entry::Entry;
use crate::commands::diff::hybrid::EXPECTED;
use crate::commands::diff::outputs::Outputs;
use crate::commands::diff::tolerance_for;
use crate::console::Console;
use crate::device::Device;
use crate::failure::Failure;
use crate::inputs::{Given, Setting, fill_around_the_middle};
use crate::io::random::Random;
use crate::measure::caller::Caller;
use crate::measure::timing::{Stop, milliseconds};

/// Runs that take longer than this, in milliseconds, need no other run before them to warm up.
const LONG: f64 = 50.0;
/// The share of a slice that is not measured.
const WARM_UP: f64 = 0.1;

/// A configuration that is ready to run.
pub(in crate::commands) struct Contender {
    pub(in crate::commands) device: Device,
    pub(in crate::commands) caller: Caller,
    pub(super) measured: Measured,
    pub(super) times: Times,
    /// The differences from the CPU so far; `None` if outputs cannot be compared.
    pub(super) outputs: Option<Outputs>,
}

/// What configurations are made of: the model, and how inputs are filled.
#[derive(Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) entry: &'a Entry<'a>,
    pub(super) plan: &'a Plan<'a>,
    pub(super) console: &'a Console,
    pub(super) is_hybrid: bool,
}

impl Contender {
    /// Prepares the configuration whose outputs are those that others are compared with, and fills the inputs.
    pub(super) fn first(setup: &Setup<'_>, configuration: &Configuration) -> Result<(Self, Given), Failure> {
        let device = Device::open(&configuration.arguments(setup.plan.limits))?;
        let start = Instant::now();
        let mut interpreter = device.interpreter(setup.entry)?;
        let init_ms = milliseconds(start);
        let setting = Setting { console: setup.console, entry: setup.entry, device: &device };
        let given = setup.plan.inputs.fill(setting, &mut interpreter)?;
        let mut random = Random::new(setup.plan.inputs.seed());
        given.random().iter().try_for_each(|index| fill_around_the_middle(&mut interpreter, *index, &mut random))?;
        let caller = Caller::new(interpreter)?;
        let contender = Self::run_first(configuration.clone(), device, caller, init_ms);
        Ok((contender.map_err(|failure| given.explain(setup.entry.name, failure))?, given))
    }

    /// Prepares a configuration with the inputs of another.
    pub(super) fn prepare(setup: &Setup<'_>, configuration: Configuration, other: &Caller) -> Result<Self, Failure> {
        let device = Device::open(&configuration.arguments(setup.plan.limits))?;
        let start = Instant::now();
        let interpreter = device.interpreter(setup.entry)?;
        let init_ms = milliseconds(start);
        Self::run_first(configuration, device, other.with(interpreter), init_ms)
    }

    /// Prepares the same configuration once more, so that what was measured of its start is not the first of its kind.
    pub(super) fn prepare_again(self, setup: &Setup<'_>) -> Result<Self, Failure> {
        let Self { device, caller, measured, times, .. } = self;
        let inputs = caller.inputs;
        // The memory of the first interpreter is free before the second one is made, as at a start.
        drop(caller.interpreter);
        let start = Instant::now();
        let interpreter = device.interpreter(setup.entry)?;
        let init_ms = milliseconds(start);
        let outputs = vec![Vec::new(); interpreter.outputs().len()];
        let caller = Caller { interpreter, inputs, outputs, is_bound: false };
        let mut again = Self::run_first(measured.configuration, device, caller, init_ms)?;
        (again.measured.is_warm, again.measured.device_ms) = (true, measured.device_ms);
        again.times.add_early(times.shortest().unwrap_or(f64::INFINITY));
        Ok(again)
    }

    /// Runs a configuration for the first time and notes what it needs.
    fn run_first(
        configuration: Configuration,
        device: Device,
        mut caller: Caller,
        init_ms: f64,
    ) -> Result<Self, Failure> {
        let start = Instant::now();
        caller.end_to_end()?;
        let first_ms = milliseconds(start);
        let figures = caller.interpreter.report();
        Failure::of_panics(&figures)?;
        let arena = figures.cpu_arena_bytes + if figures.partitions > 0 { figures.arena_bytes } else { 0 };
        let measured = Measured {
            name: configuration.label(),
            configuration,
            run_ms: None,
            e2e_ms: None,
            device_ms: device.milliseconds,
            init_ms,
            first_ms,
            is_warm: false,
            arena_bytes: arena as u64,
            weights_bytes: figures.weights_bytes as u64,
            nodes: figures.nodes,
            nodes_delegated: figures.nodes_delegated,
            partitions: figures.partitions,
            accuracy: None,
            refused: None,
            failed: None,
        };
        let mut times = Times::default();
        times.add_early(first_ms);
        Ok(Self { device, caller, measured, times, outputs: None })
    }

    /// Runs once as if for the first time, so that others can be compared with the outputs.
    pub(super) fn start_anew(&mut self) -> Result<(), Failure> {
        self.caller.interpreter.reset_variables();
        self.caller.end_to_end()
    }

    /// Returns the milliseconds of the shortest run so far.
    pub(super) fn shortest(&self) -> f64 {
        self.times.shortest().unwrap_or(0.0)
    }

    /// Returns the bytes of all inputs and outputs.
    pub(super) fn copied(&self) -> usize {
        self.caller.inputs.iter().chain(&self.caller.outputs).map(Vec::len).sum()
    }

    /// Adds the differences of the outputs of the last run from those of the reference's last run.
    pub(super) fn compare(&mut self, reference: &Caller, setup: &Setup<'_>) -> Result<(), Failure> {
        let tolerance = self.tolerance(setup);
        let outputs = self.outputs.get_or_insert_with(|| Outputs::new(&reference.interpreter));
        outputs.add(&reference.interpreter, &self.caller.interpreter, &tolerance).map(drop)
    }

    pub(super) fn tolerance(&self, setup: &Setup<'_>) -> Tolerance {
        tolerance(self.device.precision, setup)
    }

    /// Runs the configuration for some seconds, and before that some time without measuring it unless runs are long. Returns
    /// the milliseconds of each run.
    pub(super) fn slice(&mut self, seconds: f64) -> Result<Vec<f64>, Failure> {
        if self.shortest() <= LONG {
            let stop = Stop { runs: 1, seconds: seconds * WARM_UP, most: f64::INFINITY };
            stop.time(|| self.caller.end_to_end())?;
        }
        Stop { runs: 1, seconds, most: f64::INFINITY }.time(|| self.caller.end_to_end())
    }

    /// Takes over what was timed.
    pub(super) fn note(&mut self) {
        let measured = &mut self.measured;
        (measured.run_ms, measured.e2e_ms) = (self.times.estimate(), self.times.statistics());
        if let Some(failure) = &self.times.failure {
            measured.failed = Some(failure.to_string());
        }
    }
}

/// Returns by how much outputs may differ at this precision.
fn tolerance(precision: PrecisionName, setup: &Setup<'_>) -> Tolerance {
    let hybrid = setup.is_hybrid.then_some(EXPECTED);
    tolerance_for(precision, setup.plan.tolerance.or(hybrid), setup.plan.steps)
}

/// Judges the accuracy of all configurations. What is refused in f32 on a GPU is judged by the tolerance of f32 in 16 bits
/// too: its differences are not those of 16 bits.
pub(super) fn judge(all: &mut [Contender], setup: &Setup<'_>) {
    let in_f32 = |contender: &Contender| contender.device.precision == PrecisionName::F32;
    for contender in all.iter_mut() {
        let limit = contender.tolerance(setup);
        contender.judge(&limit);
    }
    let strict = tolerance(PrecisionName::F32, setup);
    let refused: Vec<Configuration> = all
        .iter()
        .filter(|contender| in_f32(contender) && contender.measured.refused.is_some())
        .map(|contender| contender.measured.configuration.clone())
        .collect();
    for contender in all.iter_mut().filter(|contender| !in_f32(contender) && contender.measured.refused.is_none()) {
        if refused.iter().any(|other| contender.measured.configuration.is_but_for_precision(other)) {
            contender.judge(&strict);
            if let Some(reason) = &mut contender.measured.refused {
                reason.push_str(", as in f32, which differs too");
            }
        }
    }
}

impl Contender {
    /// Notes how accurate the configuration is, and refuses it if that is beyond the tolerance.
    fn judge(&mut self, limit: &Tolerance) {
        if let Some(outputs) = &self.outputs {
            let summary = outputs.summary(limit);
            self.measured.refused = summary.failure.clone();
            self.measured.accuracy = Some(summary);
        }
    }
}

#[cfg(test)]
mod tests {
    use attache::model::schema::BuiltinOperator;
    use attache::{DataType, Model, ModelBuilder, OperatorBuilder, TensorBuilder};

    use super::super::configurations::GpuConfiguration;
    use super::*;
    use crate::arguments::{LimitArguments, QuantizedName};
    use crate::inputs::InputArguments;

    fn model() -> Model {
        let mut builder = ModelBuilder::new("relu");
        let main = builder.subgraph("main");
        let [x, y] = ["x", "y"].map(|name| builder.tensor(main, TensorBuilder::new(name, DataType::Float32, [2])));
        builder.operator(main, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
        builder.inputs(main, &[x]).outputs(main, &[y]);
        Model::from_bytes(builder.finish()).unwrap()
    }

    /// Judges two GPUs in f32 and f16 whose outputs are off by these shares, and returns why each is refused.
    fn refused(off: [f32; 2], tolerance: Option<f64>, is_hybrid: bool) -> [Option<String>; 2] {
        let (model, inputs, limits) = (model(), InputArguments::default(), LimitArguments::default());
        let entry = Entry::first(&model, "relu", Vec::new());
        let plan = Plan {
            budget: 1.0,
            reserved: 0.0,
            cpu: true,
            adapters: &[],
            no_gpu: None,
            known: &[],
            tolerance,
            steps: None,
            exhaustive: false,
            inputs: &inputs,
            limits: &limits,
        };
        let console = Console::plain();
        let setup = Setup { entry: &entry, plan: &plan, console: &console, is_hybrid };
        let cpu = Configuration { gpu: None, threads: 1 };
        let run = |contender: &mut Contender, values: [f32; 2]| {
            contender.caller.inputs[0] = values.map(f32::to_ne_bytes).concat();
            contender.caller.end_to_end().unwrap();
        };
        let (mut reference, _) = Contender::first(&setup, &cpu).unwrap();
        run(&mut reference, [1.0, 0.5]);
        let mut all: Vec<Contender> = vec![reference];
        for (precision, off) in [PrecisionName::F32, PrecisionName::F16].into_iter().zip(off) {
            let mut contender = Contender::prepare(&setup, cpu.clone(), &all[0].caller).unwrap();
            run(&mut contender, [1.0 + off, 0.5]);
            let (adapter, backend) = ("A".to_owned(), "vulkan".to_owned());
            let quantized = QuantizedName::Auto;
            let gpu = GpuConfiguration { adapter, backend, is_software: false, precision, quantized };
            (contender.device.precision, contender.measured.configuration.gpu) = (precision, Some(gpu));
            contender.compare(&all[0].caller, &setup).unwrap();
            all.push(contender);
        }
        judge(&mut all, &setup);
        assert_eq!(all[0].measured.refused, None);
        [1, 2].map(|index| all[index].measured.refused.clone())
    }

    #[test]
    fn sixteen_bits_are_not_judged_more_leniently_than_a_refused_f32() {
        let is_refused = |off, tolerance, is_hybrid| refused(off, tolerance, is_hybrid).map(|reason| reason.is_some());
        assert_eq!(is_refused([1e-6, 5e-3], None, false), [false, false], "16 bits may differ more");
        assert_eq!(is_refused([1e-6, 5e-2], None, false), [false, true]);
        assert_eq!(is_refused([5e-3, 5e-3], None, false), [true, true], "the difference is not one of 16 bits");
        assert_eq!(is_refused([5e-3, 5e-5], None, false), [true, false]);
        let reason = refused([5e-3, 5e-3], None, false)[1].clone().unwrap();
        assert!(reason.contains("1e-4 is allowed, as in f32"), "{reason}");
    }

    #[test]
    fn dynamic_range_quantization_has_one_tolerance_at_every_precision() {
        let is_refused = |off, tolerance, is_hybrid| refused(off, tolerance, is_hybrid).map(|reason| reason.is_some());
        assert_eq!(is_refused([2e-2, 2e-2], None, true), [false, false]);
        assert_eq!(is_refused([6e-2, 6e-2], None, true), [true, true]);
        assert_eq!(is_refused([2e-2, 2e-2], Some(1e-3), true), [true, true], "the command line decides");
    }
}
