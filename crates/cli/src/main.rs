//! The `reach` command.
fn main() {}
