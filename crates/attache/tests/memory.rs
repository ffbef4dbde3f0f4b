//! Checks that memory does not grow when interpreters are created and dropped repeatedly, and that an interpreter has
//! one set of threads. This is the only test of its process, since it measures the memory of the whole process.
#![cfg(all(target_os = "linux", not(feature = "_poison")))]

mod common;

use attache::Interpreter;
use common::Net;

/// Returns the resident memory of the process in KiB.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
fn memory_is_shared_and_returned() {
    interpreters_leave_no_memory_behind();
    interpreters_share_weights();
    shapes_share_threads();
}

/// Panics unless so many threads compute for interpreters, apart from the callers'. A thread takes its name a moment
/// after it was started.
fn expect_workers(count: usize) {
    let begin = std::time::Instant::now();
    while workers() != count {
        assert!(begin.elapsed().as_secs() < 10, "{} threads, not {count}", workers());
        std::thread::yield_now();
    }
}

fn workers() -> usize {
    let names = std::fs::read_dir("/proc/self/task").unwrap();
    let names = names.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
    names.filter(|name| name.starts_with("attache-")).count()
}

/// An interpreter starts its threads at its first run, once for all input shapes, and ends them when it is dropped.
fn shapes_share_threads() {
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let y = net.add(x, x, &[4]);
    let mut interpreter = Interpreter::builder(&net.finish(&[x], &[y])).threads(3).build().unwrap();
    expect_workers(0);
    for extent in 1..4 {
        interpreter.resize_input(0, &[extent]).unwrap();
        interpreter.invoke().unwrap();
        expect_workers(2);
    }
    drop(interpreter);
    expect_workers(0);
}

fn interpreters_leave_no_memory_behind() {
    let mut net = Net::new();
    let x = net.tensor("x", &[1 << 16]);
    let mut y = net.add(x, x, &[1 << 16]);
    for _ in 0..3 {
        y = net.multiply(y, x, &[1 << 16]);
    }
    let model = net.finish(&[x], &[y]);
    let cycle = || {
        let mut interpreter = Interpreter::builder(&model).threads(2).build().unwrap();
        interpreter.input_mut::<f32>(0).unwrap().fill(1.0);
        interpreter.invoke().unwrap();
        assert_eq!(interpreter.read::<f32>(0).unwrap()[1 << 15], 2.0);
    };
    (0..50).for_each(|_| cycle());
    let before = resident();
    (0..1000).for_each(|_| cycle());
    let grown = resident().saturating_sub(before);
    assert!(grown < 16 << 10, "{grown} KiB more after 1,000 interpreters of 768 KiB each");
}

/// Interpreters of a compiled model, and further input shapes, take no memory for weights, of which there are 16 MiB
/// in the file and as many packed.
fn interpreters_share_weights() {
    const N: usize = 2048;
    let mut net = Net::new();
    let x = net.tensor("x", &[1, N]);
    let weights: Vec<f32> = (0..N * N).map(|index| (index % 7) as f32 - 3.0).collect();
    let y = net.fully_connected(x, [N, N], &weights);
    let compiled = Interpreter::builder(&net.finish(&[x], &[y])).threads(1).compile().unwrap();
    let used = |rows: usize| {
        let mut interpreter = compiled.interpreter().unwrap();
        interpreter.resize_input(0, &[rows, N]).unwrap();
        interpreter.input_mut::<f32>(0).unwrap().fill(1.0);
        interpreter.invoke().unwrap();
        interpreter
    };
    let first = used(1);
    let before = resident();
    let others: Vec<Interpreter> = (0..8).map(|index| used(1 + index % 2)).collect();
    let grown = resident().saturating_sub(before);
    assert!(grown < 4 << 10, "{grown} KiB more for 8 interpreters with two input shapes");
    drop((first, others));
}
