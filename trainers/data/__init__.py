"""Text as tokens: corpora, their memory-mapped shards, the unigram table and the stateless sampler. Torch-free."""
