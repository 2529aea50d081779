//! Linux, now: mappings, page sizes and their promotion.
