"""The methods AML is compared with: one file a method."""
