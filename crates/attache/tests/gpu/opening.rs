//! Opening devices: beside other work, once for equal options, and again after a loss.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::Duration;

use attache::gpu::{Backend, Fault, FaultPoint, GpuErrorKind, InferencePriority, Precision, Submission};
use attache::{ErrorKind, GpuDelegate, GpuDelegateOpening, GpuDelegateOptions, Interpreter};

use crate::common::Net;

fn options() -> GpuDelegateOptions {
    GpuDelegateOptions::default().software(true).backend(Backend::Vulkan)
}

fn open(options: GpuDelegateOptions) -> GpuDelegate {
    GpuDelegate::new(options).expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on")
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_device_is_opened_beside_other_work() {
    let opening = GpuDelegate::open_async(options());
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let y = net.add(x, x, &[4]);
    let model = net.finish(&[x], &[y]);
    let delegate = opening.clone().wait().expect("a Vulkan device (on Debian: mesa-vulkan-drivers) to test on");
    assert!(opening.is_done() && matches!(opening.wait_timeout(Duration::ZERO), Some(Ok(_))));
    let times = delegate.open_times();
    assert!(times.instance_ms > 0.0 && times.search_ms > 0.0 && times.device_ms > 0.0, "{times:?}");
    assert_eq!(delegate.device_ms(), times.total_ms());
    let mut interpreter = Interpreter::builder(&model).delegate(delegate).require_delegation(true).build().unwrap();
    interpreter.write(0, &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
    interpreter.invoke().unwrap();
    assert_eq!(interpreter.read::<f32>(0).unwrap(), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn an_opening_is_awaited() {
    let mut opening = pin!(GpuDelegate::open_async(options()));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let delegate = loop {
        match opening.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(delegate) => break delegate.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert!(delegate.adapter().backend == Backend::Vulkan);
}

#[test]
fn an_opening_fails_as_new_does() {
    use InferencePriority::{Auto, MinLatency};
    let wrong = [
        (options().adapter("there is no such adapter"), ErrorKind::Device),
        (options().inference_priorities(MinLatency, MinLatency, Auto), ErrorKind::Usage),
    ];
    for (options, kind) in wrong {
        let error = GpuDelegate::open_async(options.clone()).wait().expect_err("no delegate");
        assert_eq!((error.kind(), error.to_string()), (kind, GpuDelegate::new(options).unwrap_err().to_string()));
    }
}

#[test]
fn equal_options_share_a_device() {
    let first = open(options());
    let others = [
        options().precision(Precision::F16).submission(Submission::Encoder).min_nodes_per_partition(2),
        options().max_delegated_partitions(1),
    ];
    for other in others {
        assert!(first.shares_device_with(&open(other)), "options that do not concern the device");
    }
    assert!(first.shares_device_with(&GpuDelegate::open_async(options()).wait().unwrap()));
    assert!(first.shares_device_with(&first.clone()));
    for other in [options().no_shader_f16(true), options().as_hardware(true)] {
        assert!(!first.shares_device_with(&open(other)), "options that do");
    }
}

#[test]
fn a_device_with_a_fault_is_not_shared() {
    let fault = Fault { kind: GpuErrorKind::DeviceLost, point: FaultPoint::Submit, after: 0 };
    let [faulty, other] = [(), ()].map(|()| open(options().fault(fault)));
    let sound = open(options());
    assert!(!faulty.shares_device_with(&other) && !faulty.shares_device_with(&sound));
    let mut net = Net::new();
    let x = net.tensor("x", &[4]);
    let y = net.add(x, x, &[4]);
    let model = net.finish(&[x], &[y]);
    let run = |delegate: GpuDelegate| {
        let mut interpreter = Interpreter::builder(&model).delegate(delegate).build()?;
        interpreter.write(0, &[1.0f32; 4])?;
        interpreter.invoke()
    };
    assert_eq!(run(faulty).unwrap_err().kind(), ErrorKind::DeviceLost);
    run(sound).expect("the loss of one device is not that of another");
}

/// The types are checked without a higher limit of the compiler's recursion, as in programs.
#[test]
fn delegates_and_openings_may_go_to_other_threads() {
    fn sent<T: Send + Sync>() {}
    sent::<Arc<Mutex<Option<Box<GpuDelegate>>>>>();
    sent::<Arc<Mutex<Option<Box<GpuDelegateOpening>>>>>();
}
