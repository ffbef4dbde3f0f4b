//! The delegate's own choice between floats and integers for quantized tensors: it claims what either form can run, and
//! joins nodes that have no common form in one partition.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use attache::DataType::{Int8, Int16, Int32};
use attache::gpu::{Backend, Quantized};
use attache::graph::Unsupported;
use attache::model::schema::BuiltinOperator;
use attache::{
    Claim, DataType, Delegate, DelegateError, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder,
    NodeContext, OperatorBuilder, Partition, PreparedPartition, TensorBuilder,
};

use crate::goldens::{Case, cases};
use crate::validation;

fn options(as_hardware: bool) -> GpuDelegateOptions {
    validation::listen();
    GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true).as_hardware(as_hardware)
}

fn gpu(options: GpuDelegateOptions) -> GpuDelegate {
    GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// Notes what the GPU delegate would claim, and leaves all nodes to the CPU.
struct Asking {
    gpu: GpuDelegate,
    claimed: Mutex<BTreeSet<usize>>,
}

impl Delegate for Asking {
    fn name(&self) -> &str {
        "asking"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        if self.gpu.claim(node).is_ok() {
            self.claimed.lock().unwrap().insert(node.id.index());
        }
        Err(Unsupported::new("it is only asked about"))
    }

    fn prepare(&self, _: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        Err(DelegateError::new("it claims nothing"))
    }
}

/// Returns the nodes of a case that a delegate would claim.
fn claimed(case: &Case, gpu: &GpuDelegate) -> BTreeSet<usize> {
    let asking = Arc::new(Asking { gpu: gpu.clone(), claimed: Mutex::default() });
    drop(case.interpreter(|builder| builder.delegate(asking.clone())).expect("the CPU runs every case"));
    std::mem::take(&mut *asking.claimed.lock().unwrap())
}

#[test]
fn what_either_form_can_run_is_claimed() {
    let _alone = validation::alone();
    for as_hardware in [false, true] {
        let delegates = [None, Some(Quantized::View), Some(Quantized::Exact)].map(|quantized| {
            let options = options(as_hardware);
            gpu(quantized.map_or(options.clone(), |quantized| options.quantized(quantized)))
        });
        let mut only_integers = 0;
        for case in cases().iter().filter(|case| case.is_quantized()) {
            let [chosen, floats, integers] = delegates.each_ref().map(|delegate| claimed(case, delegate));
            assert_eq!(chosen, &floats | &integers, "{}", case.name);
            only_integers += usize::from(chosen != floats);
        }
        assert!(only_integers > 10, "{only_integers} cases have nodes that only integers can run");
    }
}

/// Builds a model of `((x + x) in 16, in 32, in 8 bits) + x`, where the two middle operators have no form of floats.
fn through_32_bits() -> Model {
    let mut builder = ModelBuilder::new("through 32 bits");
    let graph = builder.subgraph("main");
    let mut tensor = |name, data_type: DataType, scale: f32, zero_point| {
        builder.tensor(graph, TensorBuilder::new(name, data_type, [4, 50]).quantized(scale, zero_point))
    };
    let x = tensor("x", Int8, 0.05, 3);
    let [doubled, wide] = [tensor("doubled", Int8, 0.1, -5), tensor("wide", Int16, 0.002, 0)];
    let (wider, narrow) = (tensor("wider", Int32, 0.0001, 0), tensor("narrow", Int8, 0.1, 7));
    let sum = tensor("sum", Int8, 0.15, 1);
    let mut operator = |kind: BuiltinOperator, inputs: &[usize], output: usize| {
        builder.operator(graph, OperatorBuilder::new(kind, inputs.to_vec(), [output]));
    };
    operator(BuiltinOperator::ADD, &[x, x], doubled);
    operator(BuiltinOperator::QUANTIZE, &[doubled], wide);
    operator(BuiltinOperator::QUANTIZE, &[wide], wider);
    operator(BuiltinOperator::QUANTIZE, &[wider], narrow);
    operator(BuiltinOperator::ADD, &[narrow, x], sum);
    builder.inputs(graph, &[x]).outputs(graph, &[sum, wide]);
    Model::from_bytes(builder.finish()).unwrap()
}

#[test]
fn nodes_without_a_common_form_share_a_partition() {
    let _alone = validation::alone();
    let (model, input): (Model, Vec<i8>) = (through_32_bits(), (0..200).map(|x| (x - 100) as i8).collect());
    let run = |interpreter: &mut Interpreter| {
        interpreter.write(0, &input).unwrap();
        interpreter.invoke().unwrap();
        (interpreter.read::<i8>(0).unwrap().to_vec(), interpreter.read::<i16>(1).unwrap().to_vec())
    };
    let expected = run(&mut Interpreter::builder(&model).build().unwrap());
    for as_hardware in [false, true] {
        let builder = Interpreter::builder(&model).delegate(Arc::new(gpu(options(as_hardware))));
        let mut interpreter = builder.require_delegation(true).build().unwrap();
        assert_eq!(interpreter.placement().partitions, 1);
        let notes: Vec<String> = interpreter.report().notes.into_iter().collect();
        let words = if as_hardware { "as integers, bit for bit" } else { "as floats, and as integers" };
        assert!(notes.iter().any(|note| note.contains(words)), "{notes:?}");
        let made = run(&mut interpreter);
        match as_hardware {
            true => assert_eq!(made, expected),
            false => {
                let steps = made.0.iter().zip(&expected.0).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(steps <= Some(1), "{steps:?} steps");
                let steps = made.1.iter().zip(&expected.1).map(|(a, b)| a.abs_diff(*b)).max();
                assert!(steps <= Some(1), "{steps:?} steps of 16 bits");
            }
        }
    }
    validation::assert_silent();
}
