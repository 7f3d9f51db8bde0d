//! Tests of core from outside, as one program: each would be linked by itself. Those of the model checker are beside it (`loom.rs`).

mod anonymise;
mod golden;
mod hazards;
mod looks;
mod mutations;
mod reader;
mod replay;
mod support;
mod writer;
