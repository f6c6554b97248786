"""Supervision as data: labelled points, pairs, triplets, samplers, and the statistics that learners need of them."""
