"""Damaged files."""


def flip_bytes(path, places):
    """Write the file with one byte flipped, for each place in turn, and yield the place."""
    content = path.read_bytes()
    for place in places:
        flipped = bytearray(content)
        flipped[place] ^= 0xFF
        path.write_bytes(flipped)
        yield place
