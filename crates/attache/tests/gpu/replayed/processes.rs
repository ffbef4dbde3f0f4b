//! Another process writes an input and reads the output through memory that both have. It is this program once more, of
//! which only the test [`child`] runs.
//!
//! The two take turns through a semaphore that both have; on a device that shares none, such as software Vulkan, through
//! pipes. `ATTACHE_INVOKES` sets the number of turns (200, or 1000 with a semaphore).

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use attache::gpu::{Device, DeviceId, DeviceMemory, DeviceSemaphore, ExternalMemory, MemoryHandle};
use attache::{ErrorKind, GpuDelegate};

use super::{at, bytes, delegate, expected, floats, interpreter, numbers, options, read, refused, two_outputs};
use crate::validation;

/// Elements of the input, which begins at the first byte, and of the output.
const COUNT: usize = 1000;
/// The offset of the output in bytes.
const OUTPUT: usize = 4096;
const MINUTE: Duration = Duration::from_secs(60);
/// What the child needs to know: bytes of the memory, its type, the device, the number of turns, and whether there is a
/// semaphore.
const MESSAGE: &str = "ATTACHE_TEST_SHARED_MEMORY";

fn turns(otherwise: u64) -> u64 {
    std::env::var("ATTACHE_INVOKES").map_or(otherwise, |value| value.parse().expect("a number of times"))
}

/// Fails where the validation layer has complained.
fn assert_silent(device: &Device) {
    if device.adapter().is_software {
        validation::assert_silent();
    }
}

/// Starts the other process. Its standard error is the memory, its standard input the semaphore if there is one.
fn start(external: ExternalMemory, semaphore: Option<&DeviceSemaphore>, turns: u64) -> std::process::Child {
    let ExternalMemory { file, bytes, memory_type, device, .. } = external;
    let DeviceId { device, driver } = device.unwrap();
    let message = serde_json::json!([bytes, memory_type, device, driver, turns, semaphore.is_some()]);
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "replayed::processes::child", "--ignored", "--nocapture"])
        .env(MESSAGE, message.to_string())
        // Without it, Mesa writes complaints to the standard error, which is the memory here.
        .env("XDG_RUNTIME_DIR", std::env::temp_dir())
        .stdin(semaphore.map_or_else(Stdio::piped, |semaphore| Stdio::from(semaphore.export().unwrap())))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(file))
        .spawn()
        .unwrap()
}

#[test]
#[ignore = "the other process of the other tests"]
fn child() {
    let Ok(message) = std::env::var(MESSAGE) else { return };
    type Message = (u64, Option<u32>, [u8; 16], [u8; 16], u64, bool);
    let (size, memory_type, device, driver, turns, has_semaphore): Message = serde_json::from_str(&message).unwrap();
    let gpu = delegate();
    let file = std::io::stderr().as_fd().try_clone_to_owned().unwrap();
    let (handle, device) = (MemoryHandle::OpaqueFile, Some(DeviceId { device, driver }));
    let external = ExternalMemory { file, handle, bytes: size, memory_type, device };
    let memory = DeviceMemory::import(gpu.device(), external).unwrap();
    let stdin = std::io::stdin();
    let file = || stdin.as_fd().try_clone_to_owned().unwrap();
    let semaphore = has_semaphore.then(|| DeviceSemaphore::import(gpu.device(), file()).unwrap());
    let w = numbers(COUNT, 1);
    for turn in 0..turns {
        let x = numbers(COUNT, turn as usize);
        memory.write(0, &bytes(&x)).unwrap();
        match &semaphore {
            Some(semaphore) => {
                semaphore.signal(2 * turn + 1).unwrap();
                assert!(semaphore.wait(2 * turn + 2, MINUTE).unwrap());
            }
            None => {
                println!("turn {turn}");
                let mut line = String::new();
                stdin.read_line(&mut line).unwrap();
                assert_eq!(line.trim_end(), format!("turn {turn}"));
            }
        }
        let mut output = vec![0; 4 * COUNT];
        memory.read(OUTPUT, &mut output).unwrap();
        assert!(floats(&output) == expected(&x, &w)[1], "turn {turn}");
    }
    assert_silent(gpu.device());
    println!("all turns were right");
}

#[test]
fn another_process_writes_the_input_and_reads_the_output() {
    let _alone = validation::alone();
    let gpu = delegate();
    let memory = DeviceMemory::exportable(gpu.device(), 2 * OUTPUT, MemoryHandle::OpaqueFile).unwrap();
    let semaphore = DeviceSemaphore::exportable(gpu.device());
    if let Err(error) = &semaphore {
        println!("without a semaphore: {error}");
    }
    let semaphore = semaphore.ok();
    let turns = turns(if semaphore.is_some() { 1000 } else { 200 });
    let mut interpreter = interpreter(&two_outputs(COUNT), &gpu);
    interpreter.write("w", &numbers(COUNT, 1)).unwrap();
    interpreter.bind_input("x", at(&memory)).unwrap();
    interpreter.bind_output(1, at(&memory).offset(OUTPUT)).unwrap();
    let mut child = start(memory.export().unwrap(), semaphore.as_ref(), turns);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut tell = child.stdin.take();
    for turn in 0..turns {
        match &semaphore {
            Some(semaphore) => {
                interpreter.bind_input("x", at(&memory).wait(semaphore, 2 * turn + 1)).unwrap();
                interpreter.bind_output(1, at(&memory).offset(OUTPUT).signal(semaphore, 2 * turn + 2)).unwrap();
                interpreter.invoke().unwrap();
            }
            None => {
                let line = format!("turn {turn}");
                lines.find(|other| other.ends_with(&line)).expect("the other process is alive");
                interpreter.invoke().unwrap();
                writeln!(tell.as_mut().unwrap(), "{line}").unwrap();
            }
        }
    }
    assert!(lines.any(|line| line.contains("all turns were right")), "the other process has failed");
    assert!(child.wait().unwrap().success());
    println!("{turns} turns of two processes");
    assert_silent(gpu.device());
}

/// Memory that is imported is the memory that was exported, in the same process too.
#[test]
fn memory_is_imported() {
    let _alone = validation::alone();
    let gpu = delegate();
    let device = gpu.device();
    for handle in [MemoryHandle::OpaqueFile, MemoryHandle::DmaBuf] {
        let memory = match DeviceMemory::exportable(device, 1000, handle) {
            Ok(memory) => memory,
            Err(error) => {
                assert!(error.to_string().contains("cannot export memory as"), "{error}");
                println!("not tested: {error}");
                continue;
            }
        };
        memory.write(0, &bytes(&numbers(250, 1))).unwrap();
        for _ in 0..20 {
            let external = memory.export().unwrap();
            assert!(external.bytes >= 1000 && external.handle == handle && external.device == device.id());
            let imported = DeviceMemory::import(device, external).unwrap();
            assert_eq!(read(&imported, 250), numbers(250, 1));
        }
    }
    assert_silent(device);
}

#[test]
fn files_of_other_memory_are_refused() {
    let _alone = validation::alone();
    // The software driver itself complains to the layer about files.
    let gpu = GpuDelegate::new(options().validation(false)).unwrap();
    let device = gpu.device();
    let handle = MemoryHandle::OpaqueFile;
    let memory = DeviceMemory::exportable(device, 1000, handle).unwrap();
    let external = || memory.export().unwrap();
    let import = |external| DeviceMemory::import(device, external);
    let other = Some(DeviceId { device: [7; 16], ..device.id().unwrap() });
    refused(import(ExternalMemory { device: other, ..external() }), ErrorKind::Usage, &["another device"]);
    if device.adapter().is_software {
        // Other drivers do not tell how long a file is.
        let larger = ExternalMemory { bytes: 1 << 20, ..external() };
        refused(import(larger), ErrorKind::Usage, &["1048576"]);
    }
    let strange = || std::fs::File::open(std::env::current_exe().unwrap()).unwrap().into();
    let error = import(ExternalMemory { file: strange(), ..external() }).unwrap_err();
    println!("a file that is none of memory: {error}");
    let plain = DeviceMemory::new(device, 64).unwrap();
    refused(plain.export(), ErrorKind::Usage, &["exportable"]);
    if let Err(error) = DeviceSemaphore::exportable(device) {
        refused::<DeviceSemaphore>(
            Err(error),
            ErrorKind::Unsupported,
            &["VK_KHR_external_semaphore_fd", "on the host"],
        );
        refused(DeviceSemaphore::import(device, strange()), ErrorKind::Unsupported, &["semaphore"]);
    }
}
