//! Tests in one program: each program of its own would compile what they share once more.

mod alverti_2020_spot;
mod barr_2011_spectlb;
mod common;
mod gupta_2021_midgard;
mod huge_page_daemons;
mod hugetlb;
mod jia_2023_gemini;
mod kanellopoulos_2025_revelator;
mod karakostas_2015_rmm;
mod linux_file_thp;
mod linux_mthp;
mod linux_thp;
mod mansi_2022_cbmm;
mod margaritov_2021_ptemagnet;
mod navarro_2002;
mod online;
mod paging;
mod reservation_variants;
mod twin;
mod utopia_and_dmt;
mod walk_assists;
mod zhao_2023_contiguitas;
mod zhou_2023;
