"""What the command line does, without the command line: fit, fit from a stream, calibrate."""
