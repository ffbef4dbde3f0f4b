//! The decoding of a pose network: the largest element of each heat map is found, its row and column computed by integer
//! arithmetic, and offsets gathered there. It is one partition.

use attache::model::schema::{ArgMaxOptionsT, BuiltinOperator, BuiltinOptionsT, PackOptionsT, TensorType};
use attache::{
    DataType, GpuDelegate, GpuDelegateOptions, Interpreter, Model, ModelBuilder, OperatorBuilder, TensorBuilder,
};

/// Extents of the heat maps, and their number.
const SIZE: usize = 24;
const POINTS: usize = 17;

/// Heat maps `[1, SIZE, SIZE, POINTS]` and offsets `[1, SIZE, SIZE, 2 × POINTS]` to the offsets at the largest elements,
/// their rows and their columns.
fn poses() -> Model {
    let mut builder = ModelBuilder::new("poses");
    let main = builder.subgraph("main");
    let cells = SIZE * SIZE;
    let tensor = |builder: &mut ModelBuilder, data_type, shape: &[usize]| {
        builder.tensor(main, TensorBuilder::new("", data_type, shape))
    };
    let heat = tensor(&mut builder, DataType::Float32, &[1, SIZE, SIZE, POINTS]);
    let offsets = tensor(&mut builder, DataType::Float32, &[1, SIZE, SIZE, 2 * POINTS]);
    let flat = tensor(&mut builder, DataType::Float32, &[1, cells, POINTS]);
    let [place, row, start, column] = [0; 4].map(|_| tensor(&mut builder, DataType::Int32, &[1, POINTS]));
    let listed = tensor(&mut builder, DataType::Int32, &[1, POINTS, 4]);
    let found = tensor(&mut builder, DataType::Float32, &[1, POINTS]);
    let shape = builder.tensor(main, TensorBuilder::values("shape", [3], &[1, cells as i32, POINTS as i32]));
    let axis = builder.tensor(main, TensorBuilder::values("axis", [], &[1i32]));
    let width = builder.tensor(main, TensorBuilder::values("width", [], &[SIZE as i32]));
    let image = builder.tensor(main, TensorBuilder::values("image", [1, POINTS], &[0i32; POINTS]));
    let channels: Vec<i32> = (0..POINTS as i32).map(|point| 2 * point).collect();
    let channel = builder.tensor(main, TensorBuilder::values("channel", [1, POINTS], &channels));
    let mut add = |operator: OperatorBuilder| builder.operator(main, operator);
    add(OperatorBuilder::new(BuiltinOperator::RESHAPE, [heat, shape], [flat]));
    let largest = ArgMaxOptionsT { output_type: TensorType::INT32 };
    let largest = BuiltinOptionsT::ArgMaxOptions(Box::new(largest));
    add(OperatorBuilder::new(BuiltinOperator::ARG_MAX, [flat, axis], [place]).options(largest));
    add(OperatorBuilder::new(BuiltinOperator::FLOOR_DIV, [place, width], [row]));
    add(OperatorBuilder::new(BuiltinOperator::MUL, [row, width], [start]));
    add(OperatorBuilder::new(BuiltinOperator::SUB, [place, start], [column]));
    let pack = BuiltinOptionsT::PackOptions(Box::new(PackOptionsT { values_count: 4, axis: 2 }));
    add(OperatorBuilder::new(BuiltinOperator::PACK, [image, row, column, channel], [listed]).options(pack));
    add(OperatorBuilder::new(BuiltinOperator::GATHER_ND, [offsets, listed], [found]));
    builder.inputs(main, &[heat, offsets]).outputs(main, &[found, row, column]);
    Model::from_bytes(builder.finish()).unwrap()
}

#[test]
fn index_arithmetic_stays_in_one_partition() {
    let _alone = crate::validation::alone();
    let model = poses();
    let gpu = GpuDelegate::new(GpuDelegateOptions::default().software(true)).expect("a device to test on");
    let mut device = Interpreter::builder(&model).threads(1).delegate(gpu).require_delegation(true).build().unwrap();
    assert_eq!(device.placement().partitions, 1, "{:?}", device.placement());
    let mut host = Interpreter::builder(&model).threads(1).build().unwrap();
    // Few values, so that several elements of a map are the largest.
    let heat: Vec<f32> = (0..SIZE * SIZE * POINTS).map(|index| (index * 7919 % 61) as f32).collect();
    let offsets: Vec<f32> = (0..SIZE * SIZE * POINTS * 2).map(|index| index as f32).collect();
    for interpreter in [&mut device, &mut host] {
        interpreter.write(0, &heat).unwrap();
        interpreter.write(1, &offsets).unwrap();
        interpreter.invoke().unwrap();
    }
    for output in 0..3 {
        assert_eq!(device.read_bytes(output).unwrap(), host.read_bytes(output).unwrap(), "output {output}");
    }
}
