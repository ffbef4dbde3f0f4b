//! Transfers between the host and a GPU at the boundaries of partitions: tensors that only the GPU reads stay on the
//! device, and integers are transferred unchanged. The results are compared with the CPU's, under the validation layer.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use attache::DataType::{self, Float32, Int32, UInt8};
use attache::gpu::{Backend, GpuStage, Submission, stage};
use attache::graph::{TensorMut, TensorRef, Unsupported};
use attache::model::schema::{BuiltinOperator, BuiltinOptionsT, CastOptionsT, TensorType};
use attache::{
    Claim, Delegate, DelegateError, DelegateKernel, GpuDelegate, GpuDelegateOptions, Interpreter, Limits, Model,
    ModelBuilder, NodeContext, OperatorBuilder, Partition, PreparedPartition, TensorBuilder,
};

use crate::validation;

fn gpu(submission: Submission) -> GpuDelegate {
    validation::listen();
    let options =
        GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).validation(true).submission(submission);
    GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

/// The GPU delegate, except that it leaves RELU to the CPU. `taken` counts the inputs that a partition takes
/// from another one on the device, and `kept` lists the outputs that stay on the device.
struct Cut {
    gpu: GpuDelegate,
    taken: Arc<AtomicUsize>,
    kept: Arc<Mutex<Vec<usize>>>,
}

impl Delegate for Cut {
    fn name(&self) -> &str {
        "GPU"
    }

    fn claim(&self, node: NodeContext<'_>) -> Result<Claim, Unsupported> {
        match node.node().op.name() {
            "RELU" => Err(Unsupported::new("the CPU is to have it")),
            _ => self.gpu.claim(node),
        }
    }

    fn prepare(&self, partition: Partition<'_>) -> Result<Box<dyn PreparedPartition>, DelegateError> {
        let (partition, taken, kept) = (self.gpu.prepare(partition)?, self.taken.clone(), self.kept.clone());
        Ok(Box::new(move || -> Result<Box<dyn DelegateKernel>, DelegateError> {
            Ok(Box::new(Watched(partition.kernel()?, taken.clone(), kept.clone())))
        }))
    }
}

struct Watched(Box<dyn DelegateKernel>, Arc<AtomicUsize>, Arc<Mutex<Vec<usize>>>);

impl DelegateKernel for Watched {
    fn invoke(&mut self, inputs: &[TensorRef<'_>], outputs: &mut [TensorMut<'_>]) -> Result<(), DelegateError> {
        self.0.invoke(inputs, outputs)
    }

    fn share_output(&mut self, output: usize) -> Option<Box<dyn Any>> {
        self.0.share_output(output)
    }

    fn take_input(&mut self, input: usize, shared: &dyn Any) -> bool {
        let taken = self.0.take_input(input, shared);
        self.1.fetch_add(usize::from(taken), Ordering::Relaxed);
        taken
    }

    fn keep_on_device(&mut self, outputs: &[usize]) {
        self.2.lock().unwrap().extend(outputs);
        self.0.keep_on_device(outputs);
    }
}

struct Net(ModelBuilder);

impl Net {
    fn tensor(&mut self, data_type: DataType, count: usize) -> usize {
        self.0.tensor(0, TensorBuilder::new("", data_type, [count]))
    }

    fn apply(&mut self, operator: BuiltinOperator, inputs: &[usize], count: usize) -> usize {
        let output = self.tensor(Float32, count);
        self.0.operator(0, OperatorBuilder::new(operator, inputs.iter().copied(), [output]));
        output
    }
}

/// Builds a model of three partitions, separated by RELUs on the CPU. Later partitions read `large` and
/// `both` of the first one, and the CPU also reads `both`. `large` is read by both later partitions.
fn cut(count: usize) -> Model {
    use BuiltinOperator as Op;
    let mut net = Net(ModelBuilder::new("cut"));
    net.0.subgraph("main");
    let [x, w] = [net.tensor(Float32, count), net.tensor(Float32, count)];
    let large = net.apply(Op::MUL, &[x, w], count);
    let both = net.apply(Op::SUB, &[x, w], count);
    let first = net.apply(Op::RELU, &[both], count);
    let sum = net.apply(Op::ADD, &[first, large], count);
    let second = net.apply(Op::ADD, &[sum, both], count);
    let seen = net.apply(Op::MUL, &[second, w], count);
    let third = net.apply(Op::RELU, &[second], count);
    let far = net.apply(Op::ADD, &[third, large], count);
    let y = net.apply(Op::ADD, &[far, seen], count);
    let small = net.apply(Op::EXP, &[y], count);
    net.0.inputs(0, &[x, w]).outputs(0, &[y, seen, small]);
    Model::from_bytes(net.0.finish()).unwrap()
}

fn fill(interpreter: &mut Interpreter, count: usize, round: usize) {
    for input in 0..2 {
        let value = |index: usize| ((index * 7 + 3 * input + 5 * round) % 23) as f32 / 16.0 - 0.6;
        interpreter.write(input, &(0..count).map(value).collect::<Vec<f32>>()).unwrap();
    }
}

#[test]
fn tensors_that_only_the_gpu_reads_stay_there() {
    let _alone = validation::alone();
    for submission in [Submission::Replay, Submission::Encoder] {
        for count in [1, 5, 1000, 300_000] {
            let (taken, kept) = (Arc::default(), Arc::default());
            let delegate = Cut { gpu: gpu(submission), taken: Arc::clone(&taken), kept: Arc::clone(&kept) };
            let model = cut(count);
            let mut device = Interpreter::builder(&model).threads(1).delegate(Arc::new(delegate)).build().unwrap();
            let mut cpu = Interpreter::builder(&model).threads(1).build().unwrap();
            assert_eq!(device.report().partitions, 3, "{}", device.placement());
            let taken = taken.load(Ordering::Relaxed);
            match submission {
                // `large` is taken twice, `both` and `seen` once. `large` and `second` stay on the GPU if
                // nothing else reads them.
                Submission::Replay => assert!(taken >= 3 && !kept.lock().unwrap().is_empty(), "{taken} {kept:?}"),
                Submission::Encoder => assert_eq!((taken, kept.lock().unwrap().len()), (0, 0)),
            }
            for round in 0..3 {
                for interpreter in [&mut device, &mut cpu] {
                    fill(interpreter, count, round);
                    if round == 2 {
                        interpreter.invoke_repeatedly(3).unwrap();
                    } else {
                        interpreter.invoke().unwrap();
                    }
                }
                for output in 0..3 {
                    let (made, expected) = (device.read::<f32>(output).unwrap(), cpu.read::<f32>(output).unwrap());
                    let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs().max(1.0);
                    assert!(made.iter().zip(expected).all(near), "{submission:?}, {count}, {round}, output {output}");
                }
            }
            device.resize_inputs(&[(0, &[3]), (1, &[3])]).unwrap();
            fill(&mut device, 3, 0);
            device.invoke().unwrap();
        }
    }
    validation::assert_silent();
}

/// Builds a model of `y = float(x) + float(x)`, for six elements of type `data_type`.
fn cast(data_type: DataType, name: TensorType) -> Model {
    let mut net = Net(ModelBuilder::new("cast"));
    net.0.subgraph("main");
    let (x, real) = (net.tensor(data_type, 6), net.tensor(Float32, 6));
    let options = CastOptionsT { in_data_type: name, out_data_type: TensorType::FLOAT32 };
    let operator = OperatorBuilder::new(BuiltinOperator::CAST, [x], [real]);
    net.0.operator(0, operator.options(BuiltinOptionsT::CastOptions(Box::new(options))));
    let y = net.apply(BuiltinOperator::ADD, &[real, real], 6);
    net.0.inputs(0, &[x]).outputs(0, &[y]);
    Model::from_bytes(net.0.finish()).unwrap()
}

#[test]
fn integers_cross_as_they_are() {
    let _alone = validation::alone();
    let delegate = gpu(Submission::Replay);
    let run = |model: &Model, bytes: &[u8]| {
        let builder = Interpreter::builder(model).delegate(Arc::new(delegate.clone())).require_delegation(true);
        let mut interpreter = builder.build().unwrap();
        interpreter.write_bytes(0, bytes).unwrap();
        interpreter.invoke().unwrap();
        interpreter.read::<f32>(0).unwrap().to_vec()
    };
    let bytes = cast(UInt8, TensorType::UINT8);
    assert_eq!(run(&bytes, &[0, 1, 127, 128, 200, 255]), [0.0, 2.0, 254.0, 256.0, 400.0, 510.0]);
    let words = cast(Int32, TensorType::INT32);
    let integers = [0i32, -1, 1 << 24, (1 << 24) + 1, i32::MIN, i32::MAX];
    let doubled = integers.map(|integer| 2.0 * integer as f32);
    assert_eq!(run(&words, integers.map(i32::to_le_bytes).as_flattened()), doubled);
    for (model, storage) in [(bytes, "read> b1: array<u32>"), (words, "read> b1: array<i32>")] {
        let shaders = stage(&model, 0, &[], &delegate, GpuStage::Wgsl, &Limits::default()).unwrap();
        assert!(shaders.contains(storage), "{storage}: {shaders}");
    }
    validation::assert_silent();
}
