"""Networks of the lab, and how they are sampled from.

Where all that can be said is a table: tables (its versions), table_sampler (engines that sample from it),
pairs and logits (policies and critics). A small language model: gpt, gpt_critic, kv_cache and decoding
(sampling), lengths (reading without padding), versions (weights that engines held), warm_start.
"""
