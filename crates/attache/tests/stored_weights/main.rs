//! Packed weights and folded constants that are stored in a folder: the same bits from a cold and a warm start, and right
//! results whatever happens to the folder.
//!
//! With the environment variable `ATTACHE_DEEP`, more damaged files and more processes are tried.

#![cfg(not(feature = "_poison"))]

mod entry;
mod model;

use std::path::Path;
use std::process::{Command, Stdio};

use attache::{CacheFolder, IntegerRounding, Interpreter, InterpreterBuilder, Model};
use tempfile::TempDir;

use entry::{EntryFile, FIRST_BLOCK, INDEX, only_entry};
use model::{VALUES, every_kind, one_convolution, run};

/// Returns the first number, or with `ATTACHE_DEEP` the second one.
fn times(otherwise: usize, deep: usize) -> usize {
    if std::env::var_os("ATTACHE_DEEP").is_some() { deep } else { otherwise }
}

/// Returns a folder for a cache.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    CacheFolder::open(folder.path()).unwrap();
    folder
}

fn builder(model: &Model, folder: &Path) -> InterpreterBuilder {
    Interpreter::builder(model).threads(1).cache(folder).model_token("every kind")
}

/// Builds an interpreter with this folder, runs it once, drops it, and returns the bytes of its outputs.
fn start(model: &Model, folder: &Path) -> Vec<Vec<u8>> {
    run(&mut builder(model, folder).build().unwrap())
}

/// Returns the outputs without a folder.
fn without(model: &Model) -> Vec<Vec<u8>> {
    run(&mut Interpreter::builder(model).threads(1).build().unwrap())
}

/// A sequence of pseudorandom numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

#[test]
fn a_warm_start_gives_the_bits_of_a_cold_one() {
    let model = every_kind(1);
    let expected = without(&model);
    for token in [Some("a"), None] {
        let folder = folder();
        let start = |threads: usize| {
            let builder = Interpreter::builder(&model).threads(threads).cache(folder.path());
            let builder = token.map_or(builder.clone(), |token| builder.model_token(token));
            let mut interpreter = builder.build().unwrap();
            let outputs = run(&mut interpreter);
            assert!(outputs == run(&mut interpreter), "a second run");
            outputs
        };
        assert!(start(1) == expected, "cold");
        let entry = only_entry(folder.path());
        let stored = EntryFile::read(&entry);
        assert_eq!(stored.values(), VALUES);
        for threads in [1, 3] {
            assert!(start(threads) == expected, "warm");
        }
        assert!(EntryFile::read(&entry).0 == stored.0 && only_entry(folder.path()) == entry, "nothing was packed anew");
        let cache = CacheFolder::open(folder.path()).unwrap();
        let entries = cache.entries().unwrap();
        assert!(entries[0].description.contains("packed weights"), "{entries:?}");
        cache.verify(&entries[0]).unwrap();
    }
}

#[test]
fn each_rounding_has_an_entry_of_its_own() {
    let (model, folder) = (every_kind(1), folder());
    for rounding in [IntegerRounding::XnnPack, IntegerRounding::Reference, IntegerRounding::XnnPack] {
        let expected = run(&mut Interpreter::builder(&model).threads(1).rounding(rounding).build().unwrap());
        let made = run(&mut builder(&model, folder.path()).rounding(rounding).build().unwrap());
        assert!(made == expected, "{rounding:?}");
    }
    assert_eq!(CacheFolder::open(folder.path()).unwrap().entries().unwrap().len(), 2);
}

#[test]
fn altered_blocks_show_as_differences() {
    let (model, folder) = (every_kind(1), folder());
    let expected = start(&model, folder.path());
    let path = only_entry(folder.path());
    let stored = EntryFile::read(&path);
    let blocks = stored.sections().len() - FIRST_BLOCK;
    assert!(blocks >= VALUES - 2, "{blocks} blocks");
    let mut unseen = 0;
    for section in FIRST_BLOCK..stored.sections().len() {
        let mut altered = stored.clone();
        let range = altered.sections()[section].clone();
        altered.0[range].iter_mut().for_each(|byte| *byte ^= 0x15);
        altered.seal();
        altered.write(&path);
        unseen += usize::from(start(&model, folder.path()) == expected);
    }
    // The packed form of a folded constant is found by the bytes of the constant, so these count as well.
    assert_eq!(unseen, 0, "of {blocks} blocks");
}

#[test]
fn damaged_entries_are_made_again() {
    let (model, folder) = (every_kind(1), folder());
    let expected = start(&model, folder.path());
    let path = only_entry(folder.path());
    let stored = EntryFile::read(&path);
    let mut random = Random(7);
    for round in 0..times(60, 3000) {
        let mut damaged = stored.clone();
        match round % 3 {
            0 => damaged.0.truncate(random.below(stored.0.len())),
            1 => damaged.0[random.below(stored.0.len())] ^= 1 << random.below(8),
            _ => {
                let start = random.below(stored.0.len());
                let end = (start + random.below(10_000)).min(stored.0.len());
                damaged.0[start..end].fill(0xff);
            }
        }
        damaged.write(&path);
        assert!(start(&model, folder.path()) == expected, "round {round}");
        assert_eq!(EntryFile::read(&path).values(), VALUES, "round {round}");
        assert!(start(&model, folder.path()) == expected, "made again, round {round}");
    }
}

#[test]
fn wrong_indexes_with_right_checksums_do_no_harm() {
    let (model, folder) = (every_kind(1), folder());
    start(&model, folder.path());
    let path = only_entry(folder.path());
    let stored = EntryFile::read(&path);
    let sections = stored.sections();
    let mut random = Random(9);
    for round in 0..times(150, 2000) {
        let mut wrong = stored.clone();
        let places = [sections[INDEX].clone(), sections[INDEX - 1].clone(), 64..64 + 32 * sections.len(), 24..64];
        let place = places[if round % 4 == 0 { random.below(places.len()) } else { 0 }].clone();
        let at = place.start + random.below(place.len());
        match random.below(4) {
            0 => wrong.0[at] ^= 1 << random.below(8),
            1 => wrong.0[at] = random.below(256) as u8,
            // Numbers are of 8 bytes, which begin at any place.
            kind => {
                let number = [0, 1, usize::MAX, 1 << 62, sections[INDEX].len(), random.below(5000)][random.below(6)];
                let end = (at + 8).min(place.end);
                let step = if kind == 2 { number } else { number.wrapping_add(1) };
                wrong.0[at..end].copy_from_slice(&step.to_le_bytes()[..end - at]);
            }
        }
        if let Some(sealed) = sealed(&wrong) {
            wrong = sealed;
        }
        wrong.write(&path);
        // Other numbers are possible; a panic or an access outside of a block is not.
        start(&model, folder.path());
    }
}

/// Returns the file with right checksums; `None` if its table is no longer one.
fn sealed(file: &EntryFile) -> Option<EntryFile> {
    let mut sealed = file.clone();
    std::panic::catch_unwind(move || {
        sealed.seal();
        sealed
    })
    .ok()
}

#[test]
fn blocks_of_other_sizes_are_not_used() {
    let (model, folder) = (every_kind(1), folder());
    let expected = start(&model, folder.path());
    let path = only_entry(folder.path());
    let stored = EntryFile::read(&path);
    let index = stored.sections()[INDEX].clone();
    // One block less for each value in turn: those that follow get the blocks of others.
    let (mut at, mut round) = (index.start, 0);
    while at < index.end {
        let mut wrong = stored.clone();
        let blocks = u64::from_le_bytes(wrong.0[at + 16..at + 24].try_into().unwrap());
        let fields = u64::from_le_bytes(wrong.0[at + 24..at + 32].try_into().unwrap()) as usize;
        wrong.0[at + 16..at + 24].copy_from_slice(&blocks.wrapping_sub(1).to_le_bytes());
        wrong.seal();
        wrong.write(&path);
        let outputs = start(&model, folder.path());
        let alike = outputs.iter().zip(&expected).filter(|(made, expected)| made == expected).count();
        // Blocks of the same size may be taken for each other.
        assert!(alike > 0, "value {round}");
        (at, round) = (at + 32 + fields, round + 1);
    }
    assert_eq!(round, VALUES);
}

#[test]
fn threads_use_one_folder_at_once() {
    let model = every_kind(1);
    let expected = without(&model);
    for _ in 0..times(3, 60) {
        let folder = folder();
        for _ in 0..2 {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| start(&model, folder.path()))).collect();
                assert!(threads.into_iter().all(|thread| thread.join().unwrap() == expected));
            });
        }
        assert_eq!(EntryFile::read(&only_entry(folder.path())).values(), VALUES);
    }
}

#[test]
fn eight_interpreters_read_one_file() {
    let (model, folder) = (every_kind(1), folder());
    let expected = start(&model, folder.path());
    let mut apart: Vec<Interpreter> = (0..8).map(|_| builder(&model, folder.path()).build().unwrap()).collect();
    let compiled = builder(&model, folder.path()).compile().unwrap();
    let together = (0..8).map(|_| compiled.interpreter().unwrap());
    apart.extend(together);
    #[cfg(target_os = "linux")]
    assert_shared(&only_entry(folder.path()), 9);
    // The file is in use for as long as an interpreter is, whatever happens to the folder.
    CacheFolder::open(folder.path()).unwrap().clear().unwrap();
    std::thread::scope(|scope| {
        for interpreter in &mut apart {
            scope.spawn(|| (0..3).for_each(|_| assert!(run(interpreter) == expected)));
        }
    });
}

/// Panics unless a file is mapped this many times, with one copy of its pages in memory.
#[cfg(target_os = "linux")]
fn assert_shared(file: &Path, times: usize) {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let kibibytes = |map: &str, field: &str| -> usize {
        let line = map.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    let name = file.to_str().unwrap();
    let found: Vec<&str> = maps.match_indices(name).map(|(at, _)| &maps[at..]).collect();
    let sum = |field: &str| found.iter().map(|map| kibibytes(map, field)).sum::<usize>();
    let size = std::fs::metadata(file).unwrap().len() as usize / 1024;
    assert_eq!(found.len(), times);
    assert!(sum("Rss:") > times * size / 2 && sum("Pss:") < 2 * size, "{} and {}", sum("Rss:"), sum("Pss:"));
    assert_eq!(sum("Anonymous:"), 0);
}

/// Runs this test's program again, to start the model with a folder in another process.
fn process(folder: &Path, prefix: &str) -> Command {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("sh");
    let script = format!("{prefix} exec \"$0\" --exact another_process --nocapture");
    command.args(["-c", &script]).arg(program).env("ATTACHE_TEST_FOLDER", folder).stdout(Stdio::null());
    command
}

/// Does nothing unless [`process`] starts it.
#[test]
fn another_process() {
    if let Some(folder) = std::env::var_os("ATTACHE_TEST_FOLDER") {
        let model = every_kind(1);
        assert!(start(&model, folder.as_ref()) == without(&model));
    }
}

#[cfg(unix)]
#[test]
fn processes_write_and_read_at_once() {
    let folder = folder();
    for _ in 0..times(4, 200) {
        let processes: Vec<_> = (0..2).map(|_| process(folder.path(), "").spawn().unwrap()).collect();
        assert!(processes.into_iter().all(|mut process| process.wait().unwrap().success()));
        let path = only_entry(folder.path());
        assert_eq!(EntryFile::read(&path).values(), VALUES);
        std::fs::remove_file(path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_stores_nothing() {
    let folder = folder();
    // No file may have more than 32 blocks of 512 bytes, and the signal that says so is ignored.
    let limited = process(folder.path(), "trap '' XFSZ; ulimit -f 32;").status().unwrap();
    assert!(limited.success());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
    assert!(process(folder.path(), "").status().unwrap().success());
    assert_eq!(EntryFile::read(&only_entry(folder.path())).values(), VALUES);
}

#[cfg(unix)]
#[test]
fn folders_that_cannot_be_used_do_no_harm() {
    use std::os::unix::fs::PermissionsExt;
    let model = every_kind(1);
    let expected = without(&model);
    let used = folder();
    let file = used.path().join("file");
    std::fs::write(&file, "no folder").unwrap();
    for path in [Path::new("/proc/attache"), &file, &file.join("below"), Path::new("")] {
        assert!(start(&model, path) == expected, "{}", path.display());
    }
    std::fs::remove_file(&file).unwrap();
    let set = |mode: u32| std::fs::set_permissions(used.path(), std::fs::Permissions::from_mode(mode)).unwrap();
    let count = || std::fs::read_dir(used.path()).unwrap().count();
    for mode in [0o777, 0o720] {
        set(mode);
        assert!(start(&model, used.path()) == expected && count() == 0, "mode {mode:o}");
    }
    set(0o700);
    assert!(start(&model, used.path()) == expected && count() == 1);
    // A user other than root cannot write now.
    set(0o500);
    assert!(start(&model, used.path()) == expected && count() == 1);
    CacheFolder::open(used.path()).unwrap().clear().ok();
    assert!(start(&model, used.path()) == expected);
    set(0o700);
}

#[test]
fn a_token_is_not_taken_for_that_of_another_model() {
    let folder = folder();
    let net = |outputs: usize| {
        let mut builder = attache::ModelBuilder::new("net");
        builder.subgraph("main");
        let weights: Vec<f32> = (0..outputs * 64).map(|index| index as f32 % 17.0).collect();
        let input = builder.tensor(0, attache::TensorBuilder::new("", attache::DataType::Float32, [1, 64]));
        let weights = builder.tensor(0, attache::TensorBuilder::values("", [outputs, 64], &weights));
        let output = builder.tensor(0, attache::TensorBuilder::new("", attache::DataType::Float32, [1, outputs]));
        let options = attache::model::schema::BuiltinOptionsT::FullyConnectedOptions(Box::default());
        let operator = attache::model::schema::BuiltinOperator::FULLY_CONNECTED;
        let inputs = [Some(input), Some(weights), None];
        builder.operator(0, attache::OperatorBuilder::new(operator, inputs, [output]).options(options));
        builder.inputs(0, &[input]).outputs(0, &[output]);
        Model::from_bytes(builder.finish()).unwrap()
    };
    let (small, large) = (net(40), net(50));
    for _ in 0..2 {
        assert!(start(&small, folder.path()) == without(&small));
        assert!(start(&large, folder.path()) == without(&large));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn other_weights_need_another_token() {
    let folder = folder();
    let (one, other) = (every_kind(1), every_kind(2));
    assert!(without(&one) != without(&other));
    let start = |model: &Model, token: Option<&str>| {
        let builder = Interpreter::builder(model).threads(1).cache(folder.path());
        run(&mut token.map_or(builder.clone(), |token| builder.model_token(token)).build().unwrap())
    };
    for _ in 0..2 {
        for model in [&one, &other] {
            assert!(start(model, None) == without(model), "without a token, the content counts");
        }
        assert!(start(&one, Some("1")) == without(&one));
        assert!(start(&other, Some("2")) == without(&other));
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 4);
}

#[test]
fn what_other_shapes_need_is_added() {
    let (model, folder) = (one_convolution(), folder());
    let file = || EntryFile::read(&only_entry(folder.path()));
    let resize = |interpreter: &mut Interpreter, width: usize| {
        interpreter.resize_input(0, &[1, 8, width, 32]).unwrap();
        run(interpreter)
    };
    let expected = [8, 3].map(|width| resize(&mut Interpreter::builder(&model).threads(1).build().unwrap(), width));
    let start = |width: usize| resize(&mut builder(&model, folder.path()).build().unwrap(), width);
    assert!(start(8) == expected[0]);
    assert_eq!(file().values(), 1);
    assert!(start(3) == expected[1], "narrow images need other segments");
    assert_eq!(file().values(), 2);
    let before = file();
    for _ in 0..2 {
        let mut interpreter = builder(&model, folder.path()).build().unwrap();
        assert!([8, 3].map(|width| resize(&mut interpreter, width)) == expected);
    }
    assert!(file().0 == before.0, "nothing was packed anew");
    std::fs::remove_file(only_entry(folder.path())).unwrap();
    let mut interpreter = builder(&model, folder.path()).build().unwrap();
    assert!([8, 3].map(|width| resize(&mut interpreter, width)) == expected);
    drop(interpreter);
    assert_eq!(file().values(), 2, "what was packed while the first value was written is stored at the end");
}

#[test]
fn weights_are_stored_while_the_interpreter_lives() {
    let (model, folder) = (every_kind(1), folder());
    let mut interpreter = builder(&model, folder.path()).build().unwrap();
    run(&mut interpreter);
    let is_stored = || !CacheFolder::open(folder.path()).unwrap().entries().unwrap().is_empty();
    for _ in 0..1000 {
        if is_stored() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(is_stored());
    std::mem::forget(interpreter);
}
