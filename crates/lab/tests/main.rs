//! Tests in one program: each program of its own would compile what they share once more.
//! Those that change settings of the computer are programs of their own, which run one after the other.

mod attribution;
mod cachegrind;
mod common;
mod cores;
mod curve;
mod fang_1999;
mod fang_micro;
mod guests;
mod kernel_code;
mod laws;
mod lindsay_2024;
mod linux_faults;
mod metrics;
mod ooo;
mod others;
mod prefetch;
mod range_tlb;
mod replacement;
mod sample_coverage;
mod sampling;
mod several_guests;
mod stop;
mod tlb_steps;
mod walk_assists;
mod walk_outcomes;
mod warming;
