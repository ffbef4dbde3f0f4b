//! Stored answers of delegates: which nodes a delegate runs, with the reasons for the others, and what it prepared of
//! each partition.

use std::collections::BTreeSet;

use attache_base::Bytes;
use attache_gpu_ir::Source;
use attache_graph::{Graph, Lowering, Node, NodeId, Quantized};
use attache_model::Model;
use attache_ops::OpResolver;
use serde::{Deserialize, Serialize};

use super::model::{identify, range_in_file};
use super::origin::ModelOrigin;
use super::{CacheFolder, Contents, Entry, Key, KeyBuilder};

/// The nodes that a delegate is offered, in their graph.
#[derive(Clone, Copy)]
pub(crate) struct Offer<'a> {
    pub(crate) model: &'a Model,
    pub(crate) subgraph: usize,
    pub(crate) graph: &'a Graph,
    /// The operators that the program registered.
    pub(crate) resolver: &'a OpResolver,
    /// The nodes that earlier delegates left.
    pub(crate) nodes: &'a [NodeId],
}

/// What a delegate answered to an offer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// The nodes of each partition, in execution order, and the number of the delegate's parts of it.
    pub(crate) partitions: Vec<(Vec<u32>, usize)>,
    /// The nodes that the delegate does not run, each with a reason.
    pub(crate) reasons: Vec<(u32, String)>,
    /// What the delegate does not support, as `OPERATOR: reason`.
    pub(crate) unsupported: BTreeSet<String>,
}

/// An answer that was stored, with the parts of each partition.
pub(crate) struct StoredAnswer {
    pub(crate) answer: Answer,
    pub(crate) parts: Vec<Vec<Bytes>>,
}

/// A delegate whose answer is stored.
#[derive(Clone, Copy)]
pub(crate) struct Respondent<'a> {
    /// The name of the delegate.
    pub(crate) name: &'a str,
    /// What the answer depends on besides the offer.
    pub(crate) key: &'a [u8],
    /// What its partitions are prepared for, for people.
    pub(crate) description: &'a str,
    /// The token that stands for the weights of the model.
    pub(crate) model_token: Option<&'a str>,
}

/// Where the answer of a delegate to an offer is stored. A trait, so that programs without a cache do not contain its
/// code.
pub(crate) trait AnswerPlace {
    /// Returns the stored answer; `None` if there is none.
    fn load(&self) -> Option<StoredAnswer>;

    /// Stores an answer, with the parts of each partition.
    fn store(&self, answer: &Answer, parts: Vec<Vec<Vec<u8>>>);
}

/// The place of an answer in a cache.
struct Place<'a> {
    cache: &'a CacheFolder,
    model: &'a Model,
    by: Respondent<'a>,
    key: Key,
}

/// The sections before the parts of partitions: the model that the answer is of, and the answer.
const FIRST_PART: usize = 2;

/// Returns the place of a delegate's answer to an offer in a cache.
pub(super) fn place<'a>(cache: &'a CacheFolder, by: Respondent<'a>, offer: &Offer<'a>) -> Box<dyn AnswerPlace + 'a> {
    let mut key = KeyBuilder::new("plan");
    identify(offer.model, by.model_token, &mut key);
    key.add(by.name.as_bytes()).add(by.key);
    describe(offer, &mut key);
    Box::new(Place { cache, model: offer.model, by, key: key.finish() })
}

impl AnswerPlace for Place<'_> {
    fn load(&self) -> Option<StoredAnswer> {
        let entry = self.cache.load(&self.key)?;
        let read = read(&entry);
        if read.is_none() {
            tracing::warn!("a stored plan is not used, and made again: it does not have the parts that it lists");
        }
        read
    }

    fn store(&self, answer: &Answer, parts: Vec<Vec<Vec<u8>>>) {
        let answer = postcard::to_allocvec(answer).expect("plain data becomes bytes");
        let description = format!("{}, plan for {}", described(self.model), self.by.description);
        // Not on the thread: the model's bytes may be the caller's, who may free them before the thread has ended.
        let origin = ModelOrigin::new(self.model, self.by.model_token).section();
        self.cache.store_later(self.key.clone(), move |cache, key| {
            let mut sections: Vec<&[u8]> = vec![&origin, &answer];
            sections.extend(parts.iter().flatten().map(Vec::as_slice));
            cache.store(key, &Contents::new(&description, &sections));
        });
    }
}

/// Returns a model's description, for people.
fn described(model: &Model) -> String {
    let text = model.description().trim();
    if text.is_empty() { "a model".to_owned() } else { format!("{text:?}") }
}

fn read(entry: &Entry) -> Option<StoredAnswer> {
    let bytes = entry.section(FIRST_PART - 1)?;
    let (answer, rest): (Answer, _) = postcard::take_from_bytes(&bytes).ok()?;
    let mut next = FIRST_PART;
    let mut parts = Vec::with_capacity(answer.partitions.len());
    for (_, count) in &answer.partitions {
        let end = next.checked_add(*count)?;
        parts.push((next..end).map(|index| entry.section(index)).collect::<Option<Vec<Bytes>>>()?);
        next = end;
    }
    (rest.is_empty() && entry.section(next).is_none()).then_some(StoredAnswer { answer, parts })
}

/// Adds everything that the answer to an offer depends on besides the model: the graph as the passes left it, with the
/// shapes of this preparation, the nodes that are offered, and the operators that the program registered.
fn describe(offer: &Offer<'_>, key: &mut KeyBuilder) {
    let graph = offer.graph;
    key.add_debug(&(offer.subgraph, &graph.inputs, &graph.outputs, offer.nodes));
    for tensor in &graph.tensors {
        let fact = &tensor.fact;
        key.add_debug(&(fact.data_type, &fact.shape, &fact.quantization, fact.is_variable, &fact.held));
        let constant = fact.constant.as_ref().map(|constant| (&constant.shape, constant.bytes.len()));
        key.add_debug(&constant);
    }
    // The attributes follow from the file, of which the passes make the same graph each time.
    for node in &graph.nodes {
        key.add_debug(&(node.op.name(), &node.inputs, &node.outputs, &node.origins, node.place(offer.subgraph)));
    }
    key.add_debug(offer.resolver);
    if !offer.resolver.is_empty() {
        describe_registered(offer, key);
    }
}

/// Adds what follows from the code of registered operators: constants that graph passes folded, and programs.
fn describe_registered(offer: &Offer<'_>, key: &mut KeyBuilder) {
    let constants = offer.graph.tensors.iter().filter_map(|tensor| tensor.fact.constant.as_ref());
    for constant in constants.filter(|constant| range_in_file(offer.model, &constant.bytes).is_none()) {
        key.add(&constant.bytes);
    }
    let registered = |node: &&Node| node.op.is_registered();
    for node in offer.graph.nodes.iter().filter(registered) {
        for quantized in [Quantized::View, Quantized::Exact] {
            match Lowering::lower(offer.graph, node, quantized) {
                Ok(lowered) => {
                    key.add_debug(&(&lowered.program, &lowered.reads));
                    for value in &lowered.program.values {
                        if let Source::Constant(constant) = &value.source {
                            key.add(&constant.bytes);
                        }
                    }
                }
                Err(reason) => {
                    key.add(reason.0.as_bytes());
                }
            }
        }
    }
}
