"""One HTML page to look at a metric: embeddings, neighbours, weights, decisions and the hardest pairs."""
