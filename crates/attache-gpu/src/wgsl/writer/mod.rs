//! A shader under construction: bindings, parameters, text.
//!
//! Whatever differs between two layers of one kind (extents, strides, offsets) is a parameter: part of the text, or read from a
//! small buffer, as the device likes it.

mod indexed_load;

use std::fmt::Write;
use std::sync::Arc;

use attache_gpu_ir::{IndexMap, Program, ValueId};

use self::indexed_load::fetching;
pub(crate) use self::indexed_load::{coordinates, keeps_vectors};
use crate::kernel::{Matrices, Storage, Storages, View};
use crate::wgsl::Context;
use crate::wgsl::accessor::Array;
use crate::wgsl::expression::{FLOAT_OF, calls_float_of, literal, vector};

/// Invocations of a work group, unless a variant says otherwise.
pub(crate) const GROUP: u32 = 64;

/// Work groups along the first axis of a dispatch; devices allow 65,535.
const MAX_GROUPS: u32 = 32768;

/// A buffer that a shader reads or writes.
#[derive(Clone, Debug)]
pub enum Binding {
    /// A value of the program, to read.
    Read(ValueId),
    /// Numbers made for this shader from constants of the program, to read.
    Packed(Packed<f32>),
    /// Words made for this shader from constants of the program, to read.
    Words(Packed<u32>),
    /// A value of the program, to write, and how the shader stores it.
    Write(ValueId, Storage),
}

/// What was made for a shader from constants. The host has it until it is on the device, and knows its length for longer.
#[derive(Clone, Debug)]
pub struct Packed<T> {
    numbers: Arc<[T]>,
    count: usize,
}

impl<T> Packed<T> {
    fn new(numbers: Arc<[T]>) -> Self {
        Self { count: numbers.len(), numbers }
    }

    /// The numbers; none once they were released.
    pub fn numbers(&self) -> &[T] {
        &self.numbers
    }

    /// How many there are, on the host or the device.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Gives up the host's memory for them.
    pub(crate) fn release(&mut self) {
        self.numbers = Arc::new([]);
    }
}

/// A shader with all that a dispatch of it needs.
#[derive(Clone, Debug)]
pub struct Shader {
    /// The name of the variant that wrote it.
    pub variant: &'static str,
    /// WGSL. Two shaders of the same text are the same pipeline.
    pub source: String,
    /// The buffers, in the order of the bindings after the parameters' own.
    pub bindings: Vec<Binding>,
    /// The parameters, where the text doesn't hold them.
    pub params: Vec<u32>,
    /// Work groups along each axis.
    pub groups: [u32; 3],
}

impl Shader {
    /// Whether its subgroups multiply matrices together.
    pub fn multiplies_matrices(&self) -> bool {
        self.source.contains("coopMultiplyAdd")
    }
}

/// Builds a [`Shader`].
pub(crate) struct Writer<'a> {
    program: &'a Program,
    storages: &'a Storages,
    views: &'a [View],
    variant: &'static str,
    bindings: Vec<(Binding, String)>,
    params: Vec<u32>,
    functions: String,
    space: Option<&'static str>,
    halves: bool,
    matrices: bool,
    /// The output, where an invocation makes four elements one after the other and collects their bytes into a word.
    collected: Option<Array>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(variant: &'static str, context: &Context<'a>) -> Self {
        let Context { program, storages, views, limits } = context;
        let (bindings, params, functions) = (Vec::new(), Vec::new(), String::new());
        let (space, halves, matrices, collected) = (limits.params.space(), false, false, None);
        Self { program, storages, views, variant, bindings, params, functions, space, halves, matrices, collected }
    }

    /// The WGSL for a number that may differ from dispatch to dispatch, of type `u32`.
    pub(crate) fn param(&mut self, value: usize) -> String {
        self.word(u32::try_from(value).expect("extents of checked values fit 32 bits"))
    }

    /// The WGSL for a number that may differ from dispatch to dispatch, of type `i32`.
    pub(crate) fn signed_param(&mut self, value: i64) -> String {
        let word = self.word(i32::try_from(value).expect("offsets of checked values fit 32 bits") as u32);
        format!("i32({word})")
    }

    /// The WGSL for a number that may differ from dispatch to dispatch, of type `f32`.
    pub(crate) fn float_param(&mut self, value: f32) -> String {
        if self.space.is_none() {
            return self.float(value);
        }
        format!("bitcast<f32>({})", self.word(value.to_bits()))
    }

    /// A parameter of 32 bits.
    fn word(&mut self, value: u32) -> String {
        if self.space.is_none() {
            return format!("{value}u");
        }
        let index = self.params.len();
        self.params.push(value);
        format!("params[{}].{}", index / 4, ["x", "y", "z", "w"][index % 4])
    }

    /// A number as the text holds it.
    fn float(&mut self, value: f32) -> String {
        let text = literal(value);
        if calls_float_of(&text) {
            self.function(FLOAT_OF);
        }
        format!("({text})")
    }

    /// Binds a value of the program, to read `lanes` elements at a time.
    pub(crate) fn read(&mut self, id: ValueId, lanes: usize) -> Array {
        let views = self.views;
        if let Some(view) = views.iter().find(|view| view.value == id) {
            return self.fetch(view.source, &view.map, lanes);
        }
        let array = self.bind(Binding::Read(id), self.storages.of(id), lanes);
        self.functions.push_str(&array.reader());
        array
    }

    /// Binds a value of the program, to read what an index map makes of it, `lanes` elements at a time.
    pub(crate) fn fetch(&mut self, source: ValueId, map: &IndexMap, lanes: usize) -> Array {
        let shape = self.program.shape(source);
        let width = if keeps_vectors(map, shape) { lanes } else { 1 };
        let array = self.bind(Binding::Read(source), self.storages.of(source), width);
        self.functions.push_str(&array.reader());
        let text = fetching(self, &array, (map, shape), [width, lanes]);
        self.functions.push_str(&text);
        let name = format!("fetch_{}", array.name());
        array.fetched(name, lanes)
    }

    /// Binds numbers made from constants, to read `lanes` elements at a time.
    pub(crate) fn packed(&mut self, numbers: Arc<[f32]>, lanes: usize) -> Array {
        let array = self.bind(Binding::Packed(Packed::new(numbers)), self.storages.packed(), lanes);
        self.functions.push_str(&array.reader());
        array
    }

    /// Binds a value of the program, to write `lanes` elements at a time.
    pub(crate) fn write(&mut self, id: ValueId, lanes: usize) -> Array {
        let storage = self.storages.written(id, lanes);
        let array = self.bind(Binding::Write(id, storage), storage, lanes);
        self.functions.push_str(&array.writer());
        array
    }

    /// Binds a value whose element `g` unit `g` of [`Writer::linear`] makes, and no other.
    pub(crate) fn write_own(&mut self, id: ValueId) -> Array {
        let Storage::Bytes(_) = self.storages.of(id) else { return self.write(id, 1) };
        let storage = self.storages.of(id);
        let array = self.bind(Binding::Write(id, storage), storage, 1);
        self.functions.push_str(&array.writer());
        self.collected = Some(array.clone());
        array
    }

    /// Lets the shader multiply matrices of binary16.
    pub(crate) fn use_matrices(&mut self, matrices: Matrices) {
        (self.halves, self.matrices) = (true, matrices == Matrices::Cooperative);
    }

    /// Binds words made from constants, to read `lanes` at a time; its name.
    pub(crate) fn words(&mut self, words: Arc<[u32]>, lanes: usize) -> String {
        self.bindings.push((Binding::Words(Packed::new(words)), vector("u32", lanes)));
        format!("b{}", self.bindings.len())
    }

    fn bind(&mut self, binding: Binding, storage: Storage, lanes: usize) -> Array {
        self.halves |= storage == Storage::Half;
        self.bindings.push((binding, storage.place(lanes)));
        Array::new(format!("b{}", self.bindings.len()), storage, lanes)
    }

    /// The function's text, but for one that is there already.
    pub(crate) fn once(&self, text: &str) -> String {
        if self.functions.contains(text) { String::new() } else { text.to_owned() }
    }

    /// Adds a function, once where it is asked for again.
    pub(crate) fn function(&mut self, text: &str) {
        if !self.functions.contains(text) {
            self.functions.push_str(text);
        }
    }

    /// The shader whose main function computes one of `count` units, numbered `g`, per invocation.
    pub(crate) fn linear(mut self, count: usize, body: &str) -> Shader {
        if let Some(array) = self.collected.take() {
            return self.collecting(count, body, &array);
        }
        let groups = u32::try_from(count.div_ceil(GROUP as usize)).expect("units of checked values fit 32 bits");
        let across = groups.clamp(1, MAX_GROUPS);
        let row = self.param((across * GROUP) as usize);
        let units = self.param(count);
        let body = format!("    let g = id.x + id.y * {row};\n    if (g >= {units}) {{ return; }}\n{body}");
        self.finish([GROUP, 1, 1], [across, groups.div_ceil(across), 1], "", &body)
    }

    /// The shader whose main function computes four of `count` units, one after the other, and writes their bytes as a word.
    fn collecting(mut self, count: usize, body: &str, array: &Array) -> Shader {
        let units = self.param(count);
        self.function(&format!("fn unit(g: u32) {{\n{body}}}\n"));
        let put = format!("{} = word;", array.word("g"));
        let body = format!(
            "    for (var unit_at = 4u * g; unit_at < min(4u * g + 4u, {units}); unit_at++) {{ unit(unit_at); }}\n    {put}\n"
        );
        self.linear(count.div_ceil(4), &body)
    }

    /// The shader with this work group, this many groups, declarations at module scope, and this main function.
    pub(crate) fn finish(self, group: [u32; 3], groups: [u32; 3], declarations: &str, body: &str) -> Shader {
        let mut source = String::new();
        if self.halves {
            source.push_str("enable f16;\n");
        }
        if self.matrices {
            source.push_str("enable wgpu_cooperative_matrix;\n");
        }
        if let (Some(space), vectors @ 1..) = (self.space, self.params.len().div_ceil(4)) {
            let _ = writeln!(source, "@group(0) @binding(0) var<{space}> params: array<vec4<u32>, {vectors}>;");
        }
        for (index, (binding, place)) in self.bindings.iter().enumerate() {
            let access = if matches!(binding, Binding::Write(..)) { "read_write" } else { "read" };
            let index = index + 1;
            let _ = writeln!(source, "@group(0) @binding({index}) var<storage, {access}> b{index}: array<{place}>;");
        }
        let [x, y, z] = group;
        let _ = write!(
            source,
            "{declarations}{}@compute @workgroup_size({x}, {y}, {z})\nfn main(@builtin(global_invocation_id) id: vec3<u32>, \
             @builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) local: vec3<u32>) {{\n{body}}}\n",
            self.functions
        );
        let bindings = self.bindings.into_iter().map(|(binding, _)| binding).collect();
        Shader { variant: self.variant, source, bindings, params: self.params, groups }
    }
}
