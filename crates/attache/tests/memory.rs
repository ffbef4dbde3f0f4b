//! Checks that memory does not grow when interpreters are created and dropped repeatedly. This is the only
//! test of its process, since it measures the memory of the whole process.
#![cfg(all(target_os = "linux", not(feature = "_poison")))]

mod common;

use attache::Interpreter;
use common::Net;

#[test]
fn interpreters_leave_no_memory_behind() {
    let resident = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() // KiB
    };
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
