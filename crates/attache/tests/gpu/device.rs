//! Runs a model on a device that the caller opened, and with delegate options that leave some nodes to the
//! CPU.

use std::sync::Arc;

use attache::gpu::{Backend, wgpu};
use attache::model::schema::BuiltinOperator;
use attache::{
    DataType, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, Outcome,
    TensorBuilder,
};

/// Builds a model of `y = relu(x)` and `z = y + y`, both outputs.
fn model() -> Model {
    let mut builder = ModelBuilder::new("a device of one's own");
    let graph = builder.subgraph("main");
    let [x, y, z] =
        ["x", "y", "z"].map(|name| builder.tensor(graph, TensorBuilder::new(name, DataType::Float32, [2, 3])));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::RELU, [x], [y]));
    builder.operator(graph, OperatorBuilder::new(BuiltinOperator::ADD, [y, y], [z]));
    builder.inputs(graph, &[x]);
    builder.outputs(graph, &[y, z]);
    Model::from_bytes(builder.finish()).unwrap()
}

fn own_device() -> (wgpu::Device, wgpu::Queue) {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::VULKAN;
    // wgpu's debugging is off, because other tests of this process listen to the validation layer, which does
    // not know wgpu's debugging information.
    descriptor.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(descriptor);
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::VULKAN));
    let adapter = adapters.first().expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor::default())).unwrap()
}

fn check(options: GpuDelegateOptions, delegated: usize) {
    let (device, queue) = own_device();
    let delegate = GpuDelegate::with_device(device, queue, options).unwrap();
    let mut interpreter = Interpreter::builder(&model()).delegate(Arc::new(delegate)).build().unwrap();
    let on = |outcome: &Outcome| matches!(outcome, Outcome::On { .. });
    assert_eq!(interpreter.placement().nodes.iter().filter(|node| on(&node.outcome)).count(), delegated);
    for round in [1.0f32, -2.0] {
        let input: Vec<f32> = (0..6).map(|i| (i as f32 - 2.5) * round).collect();
        interpreter.write(0, &input).unwrap();
        interpreter.invoke().unwrap();
        let relu: Vec<f32> = input.iter().map(|x| x.max(0.0)).collect();
        assert_eq!(interpreter.read::<f32>(0).unwrap(), relu);
        assert_eq!(interpreter.read::<f32>(1).unwrap(), relu.iter().map(|x| x + x).collect::<Vec<_>>());
    }
    interpreter.resize_input(0, &[4, 1]).unwrap();
    interpreter.write(0, &[1.0f32, -1.0, 2.0, -2.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(1).unwrap(), [2.0, 0.0, 4.0, 0.0]);
}

#[test]
fn a_callers_device_runs_the_whole_model() {
    check(GpuDelegateOptions::default().software(true), 2);
}

#[test]
fn nodes_outside_of_the_options_stay_on_the_cpu() {
    check(GpuDelegateOptions::tensorflow_lite().first_delegate_node_index(1), 1);
    check(GpuDelegateOptions::tensorflow_lite().last_delegate_node_index(0), 1);
    check(GpuDelegateOptions::default().software(true).min_nodes_per_partition(3), 0);
}

/// By default, a device that multiplies packed bytes computes quantized tensors as integers, and says so. An operator
/// without an integer form makes its partition compute with floats, and so does another device.
#[test]
fn quantized_models_are_exact_where_that_costs_nothing() {
    let _alone = crate::validation::alone();
    let cases = crate::goldens::cases();
    let case = cases.iter().find(|case| case.name.starts_with("i8_FULLY_CONNECTED"));
    let model = case.expect("a quantized contraction").model().clone();
    let note = |as_hardware: bool| {
        let options = GpuDelegateOptions::default().software(true).backend(Backend::Vulkan).as_hardware(as_hardware);
        let delegate = GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers)");
        let interpreter = Interpreter::builder(&model).delegate(Arc::new(delegate)).build().unwrap();
        interpreter.report().notes.into_iter().collect::<Vec<_>>().join("; ")
    };
    assert!(note(true).contains("as integers"), "{}", note(true));
    assert!(note(false).contains("as floats"), "{}", note(false));
}
