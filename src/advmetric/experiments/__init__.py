"""The comparisons behind the report: same splits, same scaling, tuning inside the training part only."""
